#!/usr/bin/env bash
# Fuzzes one target after the other. FUZZ_SECONDS sets the time of each, FUZZ_TARGETS selects some.
. tests/make/common.sh

has cargo-fuzz || die 'cargo-fuzz was not found; cargo install cargo-fuzz'
for target in ${FUZZ_TARGETS:-endpoint read read_write_read differential serde stream split globs rules references query_keys control_line ui_line}; do
  say "== $target"
  mkdir -p "fuzz/corpus/$target"
  # The storage of the endpoint's threads looks like a leak at the moment in which they end.
  leaks=1; [ "$target" != endpoint ] || leaks=0
  RUSTC_BOOTSTRAP=1 cargo fuzz run "$target" "fuzz/corpus/$target" grammar/corpus/accept grammar/corpus/reject \
    -- -max_total_time="${FUZZ_SECONDS:-600}" -max_len=8192 -detect_leaks=$leaks
done
