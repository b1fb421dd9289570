#!/usr/bin/env bash
# Runs every check, the quickest first.
. tests/make/common.sh

has cargo || die 'cargo was not found; install Rust from https://rustup.rs and try again'
packages emacs emacs-tests model pip node clojure nix postgres nats
step 'steps of these scripts' tests/make/test-step.sh
step 'format' cargo fmt --all --check
typos_tool $TYPOS
step 'typos' typos
step 'lints' cargo clippy --locked --all-targets $INNER -- -D warnings
step 'the codec without its features' cargo clippy --locked -p edn-codec --all-targets --no-default-features -- -D warnings
step 'documentation of the packages' env RUSTDOCFLAGS='-D warnings' cargo doc --locked -p edn-codec -p edn-bridge-contract --all-features --no-deps
# Packages of their own, which the program's own build leaves out. After a change of dependencies: make locks.
if has c++; then
  step 'fuzz targets' cargo check --locked --manifest-path fuzz/Cargo.toml
else
  say '-- LEFT OUT: whether the fuzz targets compile, because a C++ compiler is missing'
fi
step 'the benchmark of the codec' cargo check --locked --manifest-path benches/codec/Cargo.toml
tool allium $ALLIUM
step 'specs' allium check spec/*.allium
tool cargo-nextest $NEXTEST
tool cargo-deny $CARGO_DENY
rm -rf "$TOOLS/build"
step 'dependencies' cargo deny --all-features check bans licenses sources
step 'crates of the realm' tests/make/realm-crates.sh
if timeout 60 cargo deny --all-features fetch db >"$LOGS/advisories-fetch.log" 2>&1; then
  # Reported but no failure: a new advisory about a dependency is not the fault of this commit.
  cargo deny --all-features check advisories >"$LOGS/advisories.log" 2>&1 ||
    { cat "$LOGS/advisories.log" >&2; say '-- KNOWN WEAKNESSES of dependencies: see above'; }
else
  say '-- LEFT OUT: known weaknesses of dependencies, because their database cannot be reached'
fi
cross_checks aarch64-apple-darwin x86_64-pc-windows-gnu
acp_libraries
mcp_servers
has_postgres || say '-- LEFT OUT: sessions on several machines, because PostgreSQL (Debian: postgresql) is missing'
nats_server
[ -x /usr/sbin/pgbouncer ] || say '-- LEFT OUT: whether a pooler is refused, because pgbouncer is missing'
step 'tests' cargo nextest run --locked $INNER --no-fail-fast
step 'doc tests' cargo test --locked --doc $INNER
acp_tests
mcp_client
client_tests
emacs_tests
# Only packages need the slow profile.
build_program quick
if has_model_tools; then
  # Lints the code that only this build compiles.
  step 'lints of the embedded model' cargo clippy --profile quick --locked -- -D warnings
  "$PROGRAM" models fetch >/dev/null || exit 1
  EDN_BRIDGE_RELEASE="$PROGRAM" step 'the embedded model' \
    cargo nextest run --locked $INNER --run-ignored only --test engine -E 'test(/^embedded_model::/)'
else
  say '-- LEFT OUT: the test of the embedded model, because it could not be built'
fi
say '== all is well'
