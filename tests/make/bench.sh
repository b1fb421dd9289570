#!/usr/bin/env bash
# Runs the benchmarks.
. tests/make/common.sh

build_program release
cargo bench --locked $INNER
# A package of its own: it compares the codec with others, which are no dependencies of this one.
cargo run --release --locked --manifest-path benches/codec/Cargo.toml --target-dir "$CARGO_TARGET_DIR/bench"
if has_model_tools; then
  "$PROGRAM" models fetch >/dev/null || exit 1
  cargo bench --locked --bench embedded
fi
