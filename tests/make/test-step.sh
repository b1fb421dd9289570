#!/usr/bin/env bash
# Tests of `step` in common.sh: what fails in it ends the script that runs it.

CARGO_TARGET_DIR=$(mktemp -d) INNER=none
export CARGO_TARGET_DIR INNER
trap 'rm -rf "$CARGO_TARGET_DIR"' EXIT
tests=$(dirname "$0")
wrong=0

# expect STATUS LINES…: a script of these lines ends with the status, with the output in the log and without.
expect() {
  local wanted=$1 status v script; shift
  script=$(printf '%s\n' ". '$tests/common.sh'" "$@")
  for v in '' 1; do
    status=0
    V=$v bash -c "$script" >/dev/null 2>"$CARGO_TARGET_DIR/said" || status=$?
    if [ $status -ne "$wanted" ]; then
      printf 'V=%s: status %s, not %s, of:\n%s\n' "$v" "$status" "$wanted" "$script"
      cat "$CARGO_TARGET_DIR/said"
      wrong=1
    fi
  done
}

expect 0 'f() { true; ! false; false || true; }' 'step x f'
expect 7 'step x true' 'step x test 1 = 1' 'exit 7'
expect 1 'step x false' 'exit 7'
expect 1 'f() { false; true; }' 'step x f' 'exit 7'
expect 1 'f() { local a; a=$(false; echo a); echo "$a"; }' 'step x f' 'exit 7'
expect 1 'f() { false | cat; true; }' 'step x f' 'exit 7'
expect 1 'f() { g; true; }' 'g() { false; true; }' 'step x f' 'exit 7'
expect 1 'f() { die reason; }' 'step x f' 'exit 7'
# After a step, the script still ends with the first command that fails.
expect 1 'step x true' 'false' 'exit 7'
# There bash cannot tell that a command of the function failed.
expect 1 'if step x true; then exit 7; fi'
expect 1 'step x true || exit 7'
exit $wrong
