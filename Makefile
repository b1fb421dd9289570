# The commands of the project. `make run` and `make test` set up everything that they need; what a
# machine lacks is installed where that is possible, else it is said what to install.
#
#   make run [PROMPT="…"]   Emacs on the bridge; with a prompt or without a terminal one turn, printed
#   make test               every check, in the order in which it pays to fail
#   make check              the fast inner loop: format, lints, tests of the library
#   make build              the release binary, with the embedded model where it can be built
#   make bench              the benchmarks; bench-emacs: those of the Emacs package
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

# The Debian packages that are missing for what is asked: emacs, model, pip.
missing_packages() {
  local wanted
  for wanted; do
    case $$wanted in
      emacs) has emacs || echo emacs-nox ;;
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

# The release binary. Without the C++ tools it is built without the embedded model.
build_release() {
  has cargo || die 'cargo was not found; install Rust from https://rustup.rs and try again'
  packages model
  if has_model_tools; then
    step 'build the release binary (the first time llama.cpp takes minutes)' cargo build --release --locked
  else
    say '-- without the embedded model: cmake, a C++ compiler, clang and libclang are needed to build it'
    step 'build the release binary, without the embedded model' \
      cargo build --release --locked --no-default-features
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
	packages emacs model pip
	step 'format' cargo fmt --check
	typos_tool $(TYPOS)
	step 'typos' typos
	step 'lints' cargo clippy --locked --all-targets --no-default-features -- -D warnings
	tool allium $(ALLIUM)
	step 'specs' allium check spec/*.allium
	tool cargo-nextest $(NEXTEST)
	tool cargo-deny $(CARGO_DENY)
	rm -rf '$(TOOLS)/build'
	step 'dependencies' cargo deny --all-features check bans licenses sources
	step 'tests' cargo nextest run --locked --no-default-features --no-fail-fast
	step 'doc tests' cargo test --locked --doc --no-default-features
	if has emacs; then
	  EDN_BRIDGE_PROGRAM='$(DEBUG)' step 'emacs' emacs -Q --batch -l emacs/test/run-tests.el
	else
	  say '-- LEFT OUT: the tests of the Emacs package, because Emacs is missing'
	fi
	build_release
	if has_model_tools; then
	  # What only this build compiles is linted here, on what it has already built.
	  step 'lints of the embedded model' cargo clippy --release --locked -- -D warnings
	  '$(RELEASE)' models fetch >/dev/null || exit 1
	  EDN_BRIDGE_RELEASE='$(RELEASE)' step 'the embedded model' \
	    cargo nextest run --locked --no-default-features --run-ignored only -E 'binary(embedded_model)'
	else
	  say '-- LEFT OUT: the test of the embedded model, because it could not be built'
	fi
	say '== all is well'

.PHONY: check
check:
	$(SHELL_FUNCTIONS)
	step 'format' cargo fmt --check
	step 'lints' cargo clippy --all-targets --no-default-features -- -D warnings
	if has cargo-nextest; then
	  step 'tests' cargo nextest run --no-default-features --lib
	else
	  step 'tests' cargo test --no-default-features --lib
	fi

.PHONY: tools
tools:
	$(SHELL_FUNCTIONS)
	packages emacs model pip
	typos_tool $(TYPOS)
	tool allium $(ALLIUM)
	tool cargo-nextest $(NEXTEST)
	tool cargo-deny $(CARGO_DENY)
	rm -rf '$(TOOLS)/build'

.PHONY: bench
bench:
	$(SHELL_FUNCTIONS)
	build_release
	cargo bench --locked --no-default-features
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

# The files that are made from the protocol's catalogue; a test says when they are out of date.
.PHONY: generate
generate:
	cargo run --quiet --no-default-features -- generate .

# Kills the real process many times under load and looks for what was acknowledged.
.PHONY: crash
crash:
	EDN_BRIDGE_CRASH_KILLS=$${EDN_BRIDGE_CRASH_KILLS:-200} \
	  cargo nextest run --locked --no-default-features -E 'binary(crash)' --no-capture

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
