#!/usr/bin/env bash
# Runs every check; who waits for a first word from the tests waits least. A step whose inputs are those of its last pass in
# this build folder is not run again. What is long and seldom decides runs only if its inputs differ from those of the last
# `make check-all` (tests/make/check-all.lock), and runs there always.
. tests/make/common.sh

has cargo || die 'cargo was not found; install Rust from https://rustup.rs and try again'
: >"$TIMES"
: >"$OMITTED"
step 'steps of these scripts' tests/make/test-step.sh
step 'format' cargo fmt --all --check
tool cargo-nextest $NEXTEST
# Packages are installed and fetched while the compiler works.
beside packages prepare
step 'build of the tests, with their lints' linted cargo nextest run --locked $INNER --no-run
joined packages
fetched
typos_tool $TYPOS
step 'typos' typos
# Half of their time tests wait for processes and disks.
beside others other_tests
step 'tests' --inputs . -- linted cargo nextest run --locked $INNER --test-threads $((2 * $(nproc))) --no-fail-fast --success-output final --failure-output immediate-final
joined others
step 'doc tests' --inputs Cargo.lock Cargo.toml src -- linted cargo test --locked --doc $INNER
step 'lints of the benchmarks and examples' linted cargo build --locked --benches --examples $INNER
step 'the codec without its features' cargo clippy --locked -p edn-codec --all-targets --no-default-features -- -D warnings
step 'documentation of the packages' env RUSTDOCFLAGS='-D warnings' cargo doc --locked -p edn-codec -p edn-bridge-contract --all-features --no-deps
step 'crates of the realm' tests/make/realm-crates.sh
cross_checks x86_64-pc-windows-gnu
seldom_steps
summary
