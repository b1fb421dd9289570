# The commands of the project. `make run` and `make test` set up everything that they need. They install missing
# packages, or print what to install.
#
#   make run [PROMPT="…"]   opens Emacs on the bridge; with a prompt or without a terminal, prints one turn
#   make test               runs every check, the quickest first
#   make test-emacs         runs only the checks of the Emacs package
#   make check              runs the fast inner loop: format, lints, tests of the library
#   make build              builds the release binary, with the embedded model if possible
#   make bench              runs the benchmarks; bench-emacs: those of the Emacs package
#   make screenshots        takes pictures of the Emacs package, into emacs/screenshots
#   make hostile, make soak, make fuzz, make fuzz-emacs, make features: longer checks, some with more tools
#   make unsafe             counts lines with unsafe code in each dependency (FEATURES selects the build)
#   make fmt, make clean, make tools
#
# V=1 shows the output of every step while it runs.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules

export CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
TOOLS := $(CARGO_TARGET_DIR)/tools
LOGS := $(CARGO_TARGET_DIR)/logs
RELEASE := $(CARGO_TARGET_DIR)/release/edn-bridge
DEBUG := $(CARGO_TARGET_DIR)/debug/edn-bridge
export PATH := $(TOOLS)/bin:$(PATH)

# For lints and tests: everything except the embedded model, whose C++ takes minutes to compile.
INNER := --no-default-features --features index

# A prompt is passed on verbatim: no quoting, no expansion.
override PROMPT := $(value PROMPT)
export PROMPT
V ?=

# Pinned versions, so that a commit gets the same checks everywhere.
ALLIUM := allium-cli 3.6.1
CARGO_DENY := cargo-deny 0.20.2
NEXTEST := cargo-nextest 0.9.143
TYPOS := typos-cli 1.52.0

# Shell functions at the start of every recipe.
define SHELL_FUNCTIONS
say() { printf '%s\n' "$$*" >&2; }
die() { say "make: $$*"; exit 1; }

# step NAME COMMAND…: prints one line, and the command's output if it fails (or with V=1).
step() {
  local name=$$1 log begun=$$SECONDS status=0; shift
  mkdir -p '$(LOGS)'; log='$(LOGS)'/$$(tr -cs 'a-z0-9\n' - <<<"$${name,,}").log
  printf '== %s\n' "$$name" >&2
  if [ -n '$(V)' ]; then "$$@" >&2 || status=$$?; else "$$@" >"$$log" 2>&1 || status=$$?; fi
  if [ $$status -ne 0 ]; then
    [ -n '$(V)' ] || cat "$$log" >&2
    die "$$name failed (status $$status)"
  fi
  # A test runner's counts are worth a line.
  [ -n '$(V)' ] || grep -E '^ *Summary \[|^Ran [0-9]+ tests|^test result: ' "$$log" | tail -n 1 >&2 || true
  [ $$((SECONDS - begun)) -lt 5 ] || printf '   %d s\n' $$((SECONDS - begun)) >&2
}

has() { command -v "$$1" >/dev/null 2>&1; }
has_pip() { python3 -m pip --version >/dev/null 2>&1 || has pip3 || has pip; }
has_libclang() { [ -n "$${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib*/llvm*/lib*/libclang*.so*' >/dev/null \
  || compgen -G '/usr/lib*/*/libclang*.so*' >/dev/null || compgen -G '/usr/lib*/libclang*.so*' >/dev/null; }
has_model_tools() { has cmake && has c++ && has clang && has_libclang; }

has_package_lint() { compgen -G '/usr/share/emacs/site-lisp/elpa/package-lint-*' >/dev/null; }

# The missing Debian packages for each purpose: emacs, emacs-tests, screenshots, model, pip.
missing_packages() {
  local wanted
  for wanted; do
    case $$wanted in
      emacs) has emacs || echo emacs-nox ;;
      emacs-tests)
        has tmux || echo tmux
        has python3 || echo python3-minimal
        has_package_lint || echo elpa-package-lint ;;
      screenshots)
        has Xvfb || echo xvfb
        [ -e /usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf ] || echo fonts-dejavu-core ;;
      pip) has_pip || echo python3-pip ;;
      model)
        has cmake || echo cmake
        has c++ || echo g++
        has clang || echo clang
        has_libclang || echo libclang-dev ;;
    esac
  done
}

# packages PURPOSE…: installs missing packages if permitted; otherwise prints what to install and continues.
packages() {
  local missing as_root=
  missing=$$(missing_packages "$$@" | tr '\n' ' ')
  [ -n "$$missing" ] || return 0
  if ! has apt-get; then
    say "-- please install with your system's package manager (names of Debian): $$missing"; return 0
  fi
  if [ "$$(id -u)" -ne 0 ]; then
    if has sudo && sudo -n true 2>/dev/null; then as_root='sudo -n'
    else say "-- please run: sudo apt-get install $$missing"; return 0; fi
  fi
  say "== install $$missing"
  mkdir -p '$(LOGS)'
  { $$as_root env DEBIAN_FRONTEND=noninteractive apt-get update &&
    $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing
  } >'$(LOGS)/packages.log' 2>&1 ||
    say "-- that failed ($(LOGS)/packages.log); please run: apt-get install $$missing"
}

# installed PROGRAM VERSION: whether the tool is installed in the pinned version.
installed() {
  local program=$$1 version=$$2 found
  has "$$program" || return 1
  case $$program in
    cargo-*) found=$$(cargo "$${program#cargo-}" --version 2>/dev/null || true) ;;
    *) found=$$("$$program" --version 2>/dev/null || true) ;;
  esac
  [[ " $${found//$$'\n'/ } " == *" $$version "* ]]
}

# tool PROGRAM CRATE VERSION: installs a tool of the tests, once. The options make the build fast.
tool() {
  installed "$$1" "$$3" && return 0
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
  CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 CARGO_PROFILE_RELEASE_STRIP=symbols RUSTFLAGS= \
  step "install $$2 $$3" cargo install --locked --force --root '$(TOOLS)' --target-dir '$(TOOLS)/build' "$$2@$$3"
}

# The typos program is available as a Python package; without pip it is compiled.
typos_tool() {
  installed typos "$$2" && return 0
  if python3 -m pip --version >/dev/null 2>&1 &&
    python3 -m pip install --quiet --no-deps --upgrade --target '$(TOOLS)/typos' "typos==$$2" >'$(LOGS)/typos-tool.log' 2>&1
  then mkdir -p '$(TOOLS)/bin'; ln -sf ../typos/bin/typos '$(TOOLS)/bin/typos'
  else tool typos "$$1" "$$2"; fi
}

# The tests of the Emacs package: on this system's Emacs, and on the most common version.
emacs_tests() {
  if ! has emacs; then say '-- LEFT OUT: the tests of the Emacs package, because Emacs is missing'; return 0; fi
  local version newer
  has tmux || say '-- LEFT OUT: the test of all keys in a terminal Emacs, because tmux is missing'
  has python3 || say '-- LEFT OUT: the test of the Emacs package behind a faulty line, because python3 is missing'
  [ -x /usr/sbin/sshd ] || has sshd || say '-- LEFT OUT: the test of the Emacs package over ssh (Debian: openssh-server), because sshd is missing'
  has_package_lint || say '-- LEFT OUT: package-lint (Debian: elpa-package-lint), because it is missing'
  version=$$(emacs -Q --batch --eval '(princ emacs-version)')
  emacs_tests_on emacs "$$version"
  case $$version in 2[0-9].*) ;; *) return 0 ;; esac
  if newer=$$(emacs/test/fetch-emacs.sh '$(CARGO_TARGET_DIR)/emacs-newer' 2>'$(LOGS)/fetch-emacs.log'); then
    emacs_tests_on "$$newer" "$$("$$newer" -Q --batch --eval '(princ emacs-version)')"
  else
    say "-- LEFT OUT: the tests of the Emacs package on Emacs 30: $$(tail -n 1 '$(LOGS)/fetch-emacs.log')"
  fi
}

# emacs_tests_on PROGRAM VERSION
emacs_tests_on() {
  EDN_BRIDGE_PROGRAM='$(DEBUG)' step "the Emacs package on Emacs $$2" "$$1" -Q --batch -l emacs/test/run-tests.el
  # A test that cannot run here reports that, because a silently skipped test proves nothing.
  [ -n '$(V)' ] || sed -n 's/^  SKIPPED  */-- LEFT OUT: /p' '$(LOGS)'/the-emacs-package-on-emacs-*"$${2//./-}".log >&2
}

# Builds the release binary; without the C++ tools, it leaves out the embedded model.
build_release() {
  has cargo || die 'cargo was not found; install Rust from https://rustup.rs and try again'
  packages model
  if has_model_tools; then
    step 'build the release binary (the first time llama.cpp takes minutes)' cargo build --release --locked
  else
    say '-- without the embedded model: cmake, a C++ compiler, clang and libclang are needed to build it'
    step 'build the release binary, without the embedded model' \
      cargo build --release --locked $(INNER)
  fi
}
endef

.PHONY: help
help:
	sed -n 's/^#   make/make/p' Makefile

.PHONY: build
build:
	$(SHELL_FUNCTIONS)
	build_release
	say '$(RELEASE)'

.PHONY: run
run:
	$(SHELL_FUNCTIONS)
	packages emacs pip
	build_release
	if has_model_tools; then
	  # Shows its progress, and the reason for a failure.
	  '$(RELEASE)' models fetch >/dev/null || exit 1
	fi
	export EDN_BRIDGE_PROGRAM='$(RELEASE)'
	use='(setq edn-bridge-program (getenv "EDN_BRIDGE_PROGRAM"))'
	if [ -z "$$PROMPT" ] && [ -t 0 ] && [ -t 1 ]; then
	  has emacs || die 'Emacs was not found; install it (Debian: apt-get install emacs-nox), or give a prompt: make run PROMPT="…"'
	  exec emacs -Q -L emacs -l edn-bridge --eval "$$use" --eval '(edn-bridge)'
	fi
	export PROMPT="$${PROMPT:-Say hello in one short sentence.}"
	if has emacs; then
	  emacs -Q --batch -L emacs -l edn-bridge-batch --eval "$$use" --eval '(edn-bridge-batch (getenv "PROMPT"))' </dev/null || exit 1
	else
	  say '-- without Emacs: the answer comes from the command line'
	  '$(RELEASE)' prompt -- "$$PROMPT" </dev/null || exit 1
	fi

.PHONY: test
test:
	$(SHELL_FUNCTIONS)
	has cargo || die 'cargo was not found; install Rust from https://rustup.rs and try again'
	packages emacs emacs-tests model pip
	step 'format' cargo fmt --all --check
	typos_tool $(TYPOS)
	step 'typos' typos
	step 'lints' cargo clippy --locked --all-targets $(INNER) -- -D warnings
	step 'the codec without its features' cargo clippy --locked -p edn-codec --all-targets --no-default-features -- -D warnings
	step 'documentation of the codec' env RUSTDOCFLAGS='-D warnings' cargo doc --locked -p edn-codec --all-features --no-deps
	# Packages of their own, which the program's own build leaves out. After a change of dependencies: make locks.
	if has c++; then
	  step 'fuzz targets' cargo check --locked --manifest-path fuzz/Cargo.toml
	else
	  say '-- LEFT OUT: whether the fuzz targets compile, because a C++ compiler is missing'
	fi
	step 'the benchmark of the codec' cargo check --locked --manifest-path benches/codec/Cargo.toml
	tool allium $(ALLIUM)
	step 'specs' allium check spec/*.allium
	tool cargo-nextest $(NEXTEST)
	tool cargo-deny $(CARGO_DENY)
	rm -rf '$(TOOLS)/build'
	step 'dependencies' cargo deny --all-features check bans licenses sources
	if timeout 60 cargo deny --all-features fetch db >'$(LOGS)/advisories-fetch.log' 2>&1; then
	  # Reported but no failure: a new advisory about a dependency is not the fault of this commit.
	  cargo deny --all-features check advisories >'$(LOGS)/advisories.log' 2>&1 ||
	    { cat '$(LOGS)/advisories.log' >&2; say '-- KNOWN WEAKNESSES of dependencies: see above'; }
	else
	  say '-- LEFT OUT: known weaknesses of dependencies, because their database cannot be reached'
	fi
	step 'tests' cargo nextest run --locked $(INNER) --no-fail-fast
	step 'doc tests' cargo test --locked --doc $(INNER)
	emacs_tests
	build_release
	if has_model_tools; then
	  # Lints the code that only this build compiles.
	  step 'lints of the embedded model' cargo clippy --release --locked -- -D warnings
	  '$(RELEASE)' models fetch >/dev/null || exit 1
	  EDN_BRIDGE_RELEASE='$(RELEASE)' step 'the embedded model' \
	    cargo nextest run --locked $(INNER) --run-ignored only -E 'binary(embedded_model)'
	else
	  say '-- LEFT OUT: the test of the embedded model, because it could not be built'
	fi
	say '== all is well'

.PHONY: test-emacs
test-emacs:
	$(SHELL_FUNCTIONS)
	packages emacs emacs-tests
	step 'build' cargo build --locked $(INNER)
	emacs_tests

.PHONY: check
check:
	$(SHELL_FUNCTIONS)
	step 'format' cargo fmt --all --check
	step 'lints' cargo clippy --all-targets $(INNER) -- -D warnings
	if has cargo-nextest; then
	  step 'tests' cargo nextest run $(INNER) --lib
	else
	  step 'tests' cargo test $(INNER) --lib
	fi

.PHONY: tools
tools:
	$(SHELL_FUNCTIONS)
	packages emacs emacs-tests model pip
	typos_tool $(TYPOS)
	tool allium $(ALLIUM)
	tool cargo-nextest $(NEXTEST)
	tool cargo-deny $(CARGO_DENY)
	rm -rf '$(TOOLS)/build'

.PHONY: bench
bench:
	$(SHELL_FUNCTIONS)
	build_release
	cargo bench --locked $(INNER)
	# A package of its own: it compares the codec with others, which are no dependencies of this one.
	cargo run --release --locked --manifest-path benches/codec/Cargo.toml --target-dir '$(CARGO_TARGET_DIR)/bench'
	if has_model_tools; then
	  '$(RELEASE)' models fetch >/dev/null || exit 1
	  cargo bench --locked --bench embedded
	fi

.PHONY: bench-emacs
bench-emacs:
	$(SHELL_FUNCTIONS)
	packages emacs
	has emacs || die 'Emacs was not found; install it (Debian: apt-get install emacs-nox)'
	emacs -Q --batch -L emacs -l emacs/bench/edn-bridge-bench.el

# Takes pictures of the Emacs package from a real run. Debian's emacs-gtk and emacs-nox cannot both be installed, so
# emacs-gtk is unpacked into the target folder, with its missing libraries.
.PHONY: screenshots
screenshots:
	$(SHELL_FUNCTIONS)
	packages emacs screenshots
	has Xvfb || die 'Xvfb was not found; install it (Debian: apt-get install xvfb)'
	program=$${EDN_BRIDGE_PROGRAM:-}
	if [ -z "$$program" ]; then
	  step 'build' cargo build --locked --no-default-features
	  program='$(DEBUG)'
	fi
	gtk='$(CARGO_TARGET_DIR)/emacs-gtk'
	if [ ! -x "$$gtk/usr/bin/emacs-gtk" ]; then
	  has apt-get && has dpkg || die 'this needs Debian packages'
	  rm -rf "$$gtk" "$$gtk.debs"
	  mkdir -p "$$gtk.debs"
	  missing=$$(apt-get install -s --no-install-recommends emacs-gtk | awk '/^Inst/ { print $$2 }')
	  step 'fetch emacs-gtk' env -C "$$gtk.debs" apt-get download $$missing
	  for package in "$$gtk.debs"/*.deb; do dpkg -x "$$package" "$$gtk"; done
	  rm -rf "$$gtk.debs"
	fi
	display=$$(mktemp)
	Xvfb -displayfd 3 -screen 0 1280x1024x24 -nolisten tcp 3>"$$display" >'$(LOGS)/xvfb.log' 2>&1 &
	server=$$!
	trap 'kill $$server; rm -f "$$display"' EXIT
	for _ in {1..100}; do [ ! -s "$$display" ] || break; sleep 0.1; done
	[ -s "$$display" ] || die 'Xvfb did not start ($(LOGS)/xvfb.log)'
	step 'screenshots' env DISPLAY=":$$(<"$$display")" GDK_BACKEND=x11 GSETTINGS_BACKEND=memory \
	  LD_LIBRARY_PATH="$$(echo "$$gtk"/usr/lib/*-linux-gnu*)" EDN_BRIDGE_PROGRAM="$$program" \
	  timeout 120 "$$gtk/usr/bin/emacs-gtk" \
	  --dump-file="$$(find "$$gtk/usr/libexec" -name emacs.pdmp)" \
	  -Q -l emacs/test/screenshots.el emacs/screenshots

# Generates files from the protocol's catalogue; a test reports outdated ones.
.PHONY: generate
generate:
	cargo run --quiet $(INNER) -- generate .

# Updates the lock files of the separate packages, which share dependencies with the program; a step of the tests
# reports outdated ones.
.PHONY: locks
locks:
	for package in fuzz benches/codec; do
	  cargo metadata --format-version 1 --manifest-path "$$package/Cargo.toml" >/dev/null
	done

# Kills the real process many times under load and looks for what was acknowledged.
.PHONY: crash
crash:
	EDN_BRIDGE_CRASH_KILLS=$${EDN_BRIDGE_CRASH_KILLS:-200} \
	  cargo nextest run --locked $(INNER) -E 'binary(crash)' --no-capture

# Sends a hundred thousand bad lines next to a good connection.
.PHONY: hostile
hostile:
	cargo bench --locked $(INNER) --bench hostile

# Runs half an hour of mixed load and draws target/soak/soak.svg; SOAK_SECONDS sets the time.
.PHONY: soak
soak:
	EDN_BRIDGE_SOAK_SECONDS='$(or $(SOAK_SECONDS),1800)' EDN_BRIDGE_SOAK_DIR='$(CARGO_TARGET_DIR)/soak' \
	  cargo bench --locked $(INNER) --bench soak

# Fuzzes one target after the other; FUZZ_SECONDS sets the time of each, FUZZ_TARGETS selects some.
.PHONY: fuzz
fuzz:
	$(SHELL_FUNCTIONS)
	has cargo-fuzz || die 'cargo-fuzz was not found; cargo install cargo-fuzz'
	for target in $(or $(FUZZ_TARGETS),endpoint read read_write_read differential serde stream split globs rules references query_keys); do
	  say "== $$target"
	  mkdir -p "fuzz/corpus/$$target"
	  # The storage of the endpoint's threads looks like a leak at the moment in which they end.
	  leaks=1; [ "$$target" != endpoint ] || leaks=0
	  RUSTC_BOOTSTRAP=1 cargo fuzz run "$$target" "fuzz/corpus/$$target" grammar/corpus/accept grammar/corpus/reject \
	    -- -max_total_time='$(or $(FUZZ_SECONDS),600)' -max_len=8192 -detect_leaks=$$leaks
	done

# Shows random and hostile Markdown in Emacs; FUZZ_SECONDS sets the time, FUZZ_SEED repeats a run.
.PHONY: fuzz-emacs
fuzz-emacs:
	$(SHELL_FUNCTIONS)
	packages emacs
	has emacs || die 'Emacs was not found; install it (Debian: apt-get install emacs-nox)'
	FUZZ_SECONDS='$(or $(FUZZ_SECONDS),600)' FUZZ_SEED='$(FUZZ_SEED)' \
	  emacs -Q --batch -L emacs -L emacs/test -l edn-bridge-fuzz-tests -f edn-bridge-fuzz-tests-batch

# Builds each set of features without warnings, and the program with the oldest version of each dependency that
# Cargo.toml permits.
.PHONY: features
features:
	$(SHELL_FUNCTIONS)
	for set in '' index embedded-model 'index embedded-model'; do
	  case $$set in *embedded-model*) has_model_tools || { say "-- LEFT OUT: [$$set], without the tools of the embedded model"; continue; } ;; esac
	  [ -z '$(WITHOUT_MODEL)' ] || case $$set in *embedded-model*) say "-- left out: [$$set]"; continue ;; esac
	  step "features [$$set]" cargo clippy --locked --all-targets --no-default-features --features "$$set" -- -D warnings
	done
	# In a copy: the lock file of the project stays as it is. The variable lets the stable toolchain resolve so.
	copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT
	cp -R Cargo.toml src benches examples "$$copy"
	step 'oldest versions: resolve' env RUSTC_BOOTSTRAP=1 \
	  cargo update --manifest-path "$$copy/Cargo.toml" -Z direct-minimal-versions
	step 'oldest versions: check' cargo check --locked --manifest-path "$$copy/Cargo.toml" $(INNER)

# Counts the lines with unsafe code in each locked dependency; SECURITY.md groups them.
FEATURES ?= index
.PHONY: unsafe
unsafe:
	cargo fetch --locked --quiet
	registry=$$(ls -d "$${CARGO_HOME:-$$HOME/.cargo}"/registry/src/*/ | head -n 1)
	cargo tree --locked --no-default-features --features '$(FEATURES)' --edges normal --prefix none --format '{p}' |
	  awk '{ print $$1, substr($$2, 2) }' | sort -u | while read -r name version; do
	    [ -d "$$registry$$name-$$version/src" ] || continue
	    lines=$$(find "$$registry$$name-$$version/src" -name '*.rs' -exec sed 's,//.*,,' {} + |
	      grep -cE '\bunsafe\b[^_]' || true)
	    [ "$$lines" -eq 0 ] || printf '%6d  %s %s\n' "$$lines" "$$name" "$$version"
	  done | sort -rn

# Prints the tables of tricks against the permissions, with the result of each.
.PHONY: tricks
tricks:
	cargo nextest run --locked --no-default-features -E 'binary(permission_tricks)' --no-capture

# Packs the Emacs package as a tar file for package-install-file.
.PHONY: package
package:
	$(SHELL_FUNCTIONS)
	packages emacs
	has emacs || die 'Emacs was not found; install it (Debian: apt-get install emacs-nox)'
	emacs -Q --batch -l emacs/build-package.el '$(CARGO_TARGET_DIR)'

.PHONY: fmt
fmt:
	cargo fmt --all

.PHONY: clean
clean:
	cargo clean
