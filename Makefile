# The commands of the project. `make run` and `make test` set up everything that they need; what a
# machine lacks is installed where that is possible, else it is said what to install.
#
#   make run [PROMPT="…"]   Emacs on the bridge; with a prompt or without a terminal one turn, printed
#   make test               every check, in the order in which it pays to fail
#   make test-emacs         those of the Emacs package alone
#   make check              the fast inner loop: format, lints, tests of the library
#   make build              the release binary, with the embedded model where it can be built
#   make bench              the benchmarks; bench-emacs: those of the Emacs package
#   make screenshots        pictures of the Emacs package, into emacs/screenshots
#   make hostile, make soak, make fuzz, make fuzz-emacs, make features: what takes long, or needs more tools
#   make unsafe             lines with unsafe code in each dependency (FEATURES says of which build)
#   make fmt, make clean, make tools
#
# V=1 shows the output of every step as it comes.

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

# Lints and tests: everything but the embedded model, whose C++ takes minutes to compile.
INNER := --no-default-features --features index

# What a person says is passed on as it is: no quoting, no expansion.
override PROMPT := $(value PROMPT)
export PROMPT
V ?=

# Pinned, so that the same commit is checked the same way everywhere.
ALLIUM := allium-cli 3.6.1
CARGO_DENY := cargo-deny 0.20.2
NEXTEST := cargo-nextest 0.9.143
TYPOS := typos-cli 1.52.0

# Shell functions that every recipe begins with.
define SHELL_FUNCTIONS
say() { printf '%s\n' "$$*" >&2; }
die() { say "make: $$*"; exit 1; }

# step NAME COMMAND…: one line, and the command's output where it fails (or V=1).
step() {
  local name=$$1 log begun=$$SECONDS status=0; shift
  mkdir -p '$(LOGS)'; log='$(LOGS)'/$$(tr -cs 'a-z0-9\n' - <<<"$${name,,}").log
  printf '== %s\n' "$$name" >&2
  if [ -n '$(V)' ]; then "$$@" >&2 || status=$$?; else "$$@" >"$$log" 2>&1 || status=$$?; fi
  if [ $$status -ne 0 ]; then
    [ -n '$(V)' ] || cat "$$log" >&2
    die "$$name failed (status $$status)"
  fi
  # What a test runner counted is worth a line.
  [ -n '$(V)' ] || grep -E '^ *Summary \[|^Ran [0-9]+ tests|^test result: ' "$$log" | tail -n 1 >&2 || true
  [ $$((SECONDS - begun)) -lt 5 ] || printf '   %d s\n' $$((SECONDS - begun)) >&2
}

has() { command -v "$$1" >/dev/null 2>&1; }
has_pip() { python3 -m pip --version >/dev/null 2>&1 || has pip3 || has pip; }
has_libclang() { [ -n "$${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib*/llvm*/lib*/libclang*.so*' >/dev/null \
  || compgen -G '/usr/lib*/*/libclang*.so*' >/dev/null || compgen -G '/usr/lib*/libclang*.so*' >/dev/null; }
has_model_tools() { has cmake && has c++ && has clang && has_libclang; }

has_package_lint() { compgen -G '/usr/share/emacs/site-lisp/elpa/package-lint-*' >/dev/null; }

# The Debian packages that are missing for what is asked: emacs, emacs-tests, screenshots, model, pip.
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

# packages WANTED…: installs what is missing where it may; else says what to install and goes on.
packages() {
  local missing as_root=
  missing=$$(missing_packages "$$@" | tr '\n' ' ')
  [ -n "$$missing" ] || return 0
  if ! has apt-get; then
    say "-- please install, by your system's package manager, what Debian calls: $$missing"; return 0
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

# installed PROGRAM VERSION: whether the tool is there in the pinned version.
installed() {
  local program=$$1 version=$$2 found
  has "$$program" || return 1
  case $$program in
    cargo-*) found=$$(cargo "$${program#cargo-}" --version 2>/dev/null || true) ;;
    *) found=$$("$$program" --version 2>/dev/null || true) ;;
  esac
  [[ " $${found//$$'\n'/ } " == *" $$version "* ]]
}

# tool PROGRAM CRATE VERSION: installs a tool of the tests, once. Built for the build's speed.
tool() {
  installed "$$1" "$$3" && return 0
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
  CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 CARGO_PROFILE_RELEASE_STRIP=symbols RUSTFLAGS= \
  step "install $$2 $$3" cargo install --locked --force --root '$(TOOLS)' --target-dir '$(TOOLS)/build' "$$2@$$3"
}

# The typos program comes ready-made as a Python package; without pip it is compiled.
typos_tool() {
  installed typos "$$2" && return 0
  if python3 -m pip --version >/dev/null 2>&1 &&
    python3 -m pip install --quiet --no-deps --upgrade --target '$(TOOLS)/typos' "typos==$$2" >'$(LOGS)/typos-tool.log' 2>&1
  then mkdir -p '$(TOOLS)/bin'; ln -sf ../typos/bin/typos '$(TOOLS)/bin/typos'
  else tool typos "$$1" "$$2"; fi
}

# The tests of the Emacs package: on this system's Emacs, and on the one that most people have.
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
  # Those that cannot run here say so: a test that is passed over silently holds nothing.
  [ -n '$(V)' ] || sed -n 's/^  SKIPPED  */-- LEFT OUT: /p' '$(LOGS)'/the-emacs-package-on-emacs-*"$${2//./-}".log >&2
}

# The release binary. Without the C++ tools it is built without the embedded model.
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
	  # Says how far it is, and why where it fails.
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
	step 'format' cargo fmt --check
	typos_tool $(TYPOS)
	step 'typos' typos
	step 'lints' cargo clippy --locked --all-targets $(INNER) -- -D warnings
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
	  # Said, and no failure: what was published since about a dependency is not the fault of this commit.
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
	  # What only this build compiles is linted here, on what it has already built.
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
	step 'format' cargo fmt --check
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

# Pictures of the Emacs package in use, from a real run. Debian's emacs-gtk cannot be installed beside
# emacs-nox, and so it is unpacked into the target folder, with those of its libraries that are missing.
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
	  has apt-get && has dpkg || die 'this needs the packages of Debian'
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

# The files that are made from the protocol's catalogue; a test says when they are out of date.
.PHONY: generate
generate:
	cargo run --quiet $(INNER) -- generate .

# The lock files of the packages that stand beside the program and share its dependencies; a step of the tests
# says when they are out of date.
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

# A hundred thousand bad lines beside a good connection.
.PHONY: hostile
hostile:
	cargo bench --locked $(INNER) --bench hostile

# Half an hour of mixed load, drawn to target/soak/soak.svg; SOAK_SECONDS says how long.
.PHONY: soak
soak:
	EDN_BRIDGE_SOAK_SECONDS='$(or $(SOAK_SECONDS),1800)' EDN_BRIDGE_SOAK_DIR='$(CARGO_TARGET_DIR)/soak' \
	  cargo bench --locked $(INNER) --bench soak

# An hour of fuzzing, TARGET by TARGET; FUZZ_SECONDS for each, FUZZ_TARGETS names some.
.PHONY: fuzz
fuzz:
	$(SHELL_FUNCTIONS)
	has cargo-fuzz || die 'cargo-fuzz was not found; cargo install cargo-fuzz'
	for target in $(or $(FUZZ_TARGETS),endpoint read read_write_read differential serde stream split globs rules references query_keys); do
	  say "== $$target"
	  mkdir -p "fuzz/corpus/$$target"
	  # The endpoint has threads, whose own storage looks like a leak in the moment in which they end.
	  leaks=1; [ "$$target" != endpoint ] || leaks=0
	  RUSTC_BOOTSTRAP=1 cargo fuzz run "$$target" "fuzz/corpus/$$target" grammar/corpus/accept grammar/corpus/reject \
	    -- -max_total_time='$(or $(FUZZ_SECONDS),600)' -max_len=8192 -detect_leaks=$$leaks
	done

# Random and hostile Markdown in Emacs; FUZZ_SECONDS says how long, FUZZ_SEED repeats a run.
.PHONY: fuzz-emacs
fuzz-emacs:
	$(SHELL_FUNCTIONS)
	packages emacs
	has emacs || die 'Emacs was not found; install it (Debian: apt-get install emacs-nox)'
	FUZZ_SECONDS='$(or $(FUZZ_SECONDS),600)' FUZZ_SEED='$(FUZZ_SEED)' \
	  emacs -Q --batch -L emacs -L emacs/test -l edn-bridge-fuzz-tests -f edn-bridge-fuzz-tests-batch

# Each set of features builds and is free of warnings, and the program builds with the oldest version of each
# dependency that Cargo.toml allows.
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

# How many lines of each locked dependency's source hold unsafe code: what SECURITY.md groups.
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

# The tables of ways around the permissions, and what comes of each.
.PHONY: tricks
tricks:
	cargo nextest run --locked --no-default-features -E 'binary(permission_tricks)' --no-capture

# The Emacs package as a tar that package-install-file takes.
.PHONY: package
package:
	$(SHELL_FUNCTIONS)
	packages emacs
	has emacs || die 'Emacs was not found; install it (Debian: apt-get install emacs-nox)'
	emacs -Q --batch -l emacs/build-package.el '$(CARGO_TARGET_DIR)'

.PHONY: fmt
fmt:
	cargo fmt

.PHONY: clean
clean:
	cargo clean
