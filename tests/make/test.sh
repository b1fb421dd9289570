#!/usr/bin/env bash
# Runs every check; who waits for a first word from the tests waits least. A step whose inputs are those of its last pass in
# this build folder is not run again. What is long and seldom decides runs only if its inputs differ from those of the last
# `make check-all` (tests/make/check-all.lock), and runs there always.
. tests/make/common.sh

has cargo || die 'cargo was not found; install Rust from https://rustup.rs and try again'
: >"$TIMES"
: >"$OMITTED"
packages emacs emacs-tests model pip node clojure nix postgres nats
# What comes over the network arrives while the compiler works.
beside fetches fetch_all
step 'steps of these scripts' tests/make/test-step.sh
step 'format' cargo fmt --all --check
typos_tool $TYPOS
step 'typos' typos
tool cargo-nextest $NEXTEST
# tests/contract/spec_contract.rs asks it for findings and obligations.
tool allium $ALLIUM
step 'build of the tests' cargo nextest run --locked $INNER --no-run
joined fetches
fetched
# Half of their time they wait for processes and disks.
step 'tests' --inputs . -- cargo nextest run --locked $INNER --test-threads $((2 * $(nproc))) --no-fail-fast --success-output final --failure-output immediate-final
step 'doc tests' --inputs Cargo.lock Cargo.toml src -- cargo test --locked --doc $INNER
acp_tests
mcp_client
client_tests
beside emacs emacs_tests
step 'lints' cargo clippy --locked --all-targets $INNER -- -D warnings
step 'the codec without its features' cargo clippy --locked -p edn-codec --all-targets --no-default-features -- -D warnings
step 'documentation of the packages' env RUSTDOCFLAGS='-D warnings' cargo doc --locked -p edn-codec -p edn-bridge-contract --all-features --no-deps
step 'crates of the realm' tests/make/realm-crates.sh
cross_checks x86_64-pc-windows-gnu
joined emacs
seldom_steps
summary
