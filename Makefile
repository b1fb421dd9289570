# The commands of the project. `make run` and `make test` set up everything that they need. They install missing
# packages, or print what to install.
#
#   make run [PROMPT="…"]   opens Emacs on the bridge; with a prompt or without a terminal, prints one turn
#   make test               runs every check whose inputs changed since it passed
#   make check-all          runs what is long and seldom decides in any case, and notes that it passed
#   make test-emacs         runs only the checks of the Emacs package
#   make clients            runs only the tests of the clients in other languages
#   make check              runs the fast inner loop: format, lints, tests of the library
#   make build              builds the release binary, with the embedded model if possible
#   make dist               builds the archives and packages, into target/dist; dist-check: installs and tries each
#   make cross              checks that the program compiles for macOS, and its packages for Windows
#   make bench              runs the benchmarks; bench-emacs: those of the Emacs package
#   make melpa              builds the Emacs package from its recipe, and checks it as others install it
#   make screenshots        takes pictures of the Emacs package, into emacs/screenshots
#   make crash, make realm, make simulate, make hostile, make soak, make fuzz, make fuzz-emacs, make features: longer checks,
#                           some with more tools
#   make unsafe             counts lines with unsafe code in each dependency (FEATURES selects the build)
#   make fmt, make clean, make tools
#
# V=1 shows the output of every step while it runs. The scripts of the longer targets are in tests/make.

MAKEFLAGS += --no-print-directory --no-builtin-rules
.DEFAULT_GOAL := help

export CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
export PATH := $(CARGO_TARGET_DIR)/tools/bin:$(PATH)

# For lints and tests: everything except the embedded model, whose C++ takes minutes to compile. The release, which is
# linted too, has neither telemetry nor PostgreSQL; this has both.
export INNER := --no-default-features --features index,otel,postgres,nats

# A prompt is passed on verbatim: no quoting, no expansion.
override PROMPT := $(value PROMPT)
export PROMPT

.PHONY: help
help:
	@sed -n 's/^#   make/make/p' Makefile

SCRIPTS := build run test check-all test-emacs clients check cross dist dist-check dist-twice tools bench bench-emacs screenshots fuzz fuzz-emacs \
  features unsafe package melpa
.PHONY: $(SCRIPTS)
$(SCRIPTS):
	@exec bash tests/make/$@.sh

# Generates files from the protocol's catalogue; a test reports outdated ones.
.PHONY: generate
generate:
	@cargo run --quiet $(INNER) -- generate .

# Updates the lock files of the separate packages, which share dependencies with the program; a step of the tests
# reports outdated ones.
.PHONY: locks
locks:
	@cargo metadata --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	@cargo metadata --format-version 1 --manifest-path benches/codec/Cargo.toml >/dev/null

# Kills the real process many times under load and looks for lost acknowledged entries.
.PHONY: crash
crash: export EDN_BRIDGE_CRASH_KILLS ?= 200
crash:
	@cargo nextest run --locked $(INNER) --test engine -E 'test(/^crash::/)' --no-capture

# Kills owners of shared sessions, and their PostgreSQL, many times.
.PHONY: realm
realm: export EDN_BRIDGE_REALM_KILLS ?= 200
realm:
	@cargo nextest run --locked $(INNER) --test realm -E 'not test(/^(federation|realm_simulation)::/)' --no-capture

# Simulates several machines on one engine. SEEDS is a count, or the first seed and a count: 17:1.
.PHONY: simulate
simulate: export EDN_BRIDGE_SIMULATION_SEEDS := $(or $(SEEDS),5000)
simulate:
	@cargo nextest run --locked $(INNER) --test realm -E 'test(/^realm_simulation::sound/)' --no-capture

# MCP servers from the package registries, and the official conformance suite for their clients.
.PHONY: test-peers
test-peers:
	@tests/make/peers.sh

# Sends a hundred thousand bad lines next to a good connection.
.PHONY: hostile
hostile:
	@cargo bench --locked $(INNER) --bench hostile

# Runs half an hour of mixed load and draws target/soak/soak.svg; SOAK_SECONDS sets the time.
.PHONY: soak
soak: export EDN_BRIDGE_SOAK_SECONDS := $(or $(SOAK_SECONDS),1800)
soak: export EDN_BRIDGE_SOAK_DIR := $(CARGO_TARGET_DIR)/soak
soak:
	@cargo bench --locked $(INNER) --bench soak

# Prints the tables of tricks against the permissions, with the result of each.
.PHONY: tricks
tricks:
	@cargo nextest run --locked --no-default-features --test engine -E 'test(/^permission_tricks::/)' --no-capture

.PHONY: fmt
fmt:
	@cargo fmt --all

.PHONY: clean
clean:
	@cargo clean
