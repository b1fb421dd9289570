#!/usr/bin/env bash
# Runs the fast inner loop: format, lints, tests of the library.
. tests/make/common.sh

step 'format' cargo fmt --all --check
step 'lints' cargo clippy --all-targets $INNER -- -D warnings
if has cargo-nextest; then
  step 'tests' cargo nextest run $INNER --lib
else
  step 'tests' cargo test $INNER --lib
fi
