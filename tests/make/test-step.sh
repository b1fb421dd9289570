#!/usr/bin/env bash
# Tests of `step` in common.sh: what fails in it ends the script that runs it, what passed runs again when its inputs change,
# and what is left out is told.

CARGO_TARGET_DIR=$(mktemp -d) INNER=none
export CARGO_TARGET_DIR INNER
unset CHECK_ALL STRICT
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

# With inputs: once, until one of them changes, or the step says that it left something out.
inputs=$CARGO_TARGET_DIR/inputs
mkdir -p "$inputs" && echo a >"$inputs/a"
ran() { printf 'step x --inputs "%s" -- bash -c "echo ran >>%s; %s"' "$inputs" "$CARGO_TARGET_DIR/ran" "$1"; }
times() {
  local wanted=$1
  if [ "$(wc -l <"$CARGO_TARGET_DIR/ran")" -ne "$wanted" ]; then echo "it ran $(wc -l <"$CARGO_TARGET_DIR/ran") times, not $wanted"; wrong=1; fi
}
once() { bash -c ". '$tests/common.sh'; $1" >/dev/null 2>&1 || { echo "failed: $1"; wrong=1; }; }
once "$(ran true)"; once "$(ran true)"; times 1
echo b >"$inputs/a"; once "$(ran true)"; times 2
echo a >"$inputs/b"; once "$(ran 'echo LEFT OUT: y')"; once "$(ran true)"; times 4
once "$(ran true)"; times 4
# What seldom decides runs if its digest is not the one in the lock file.
lock="LOCK=$CARGO_TARGET_DIR/lock; touch \$LOCK"
rare() { printf '%s; seldom y --inputs "%s" -- bash -c "echo ran >>%s"' "$lock" "$inputs" "$CARGO_TARGET_DIR/ran"; }
rm -r "$CARGO_TARGET_DIR/passed"; once "CHECK_ALL=1; $(rare)"; times 5
rm -r "$CARGO_TARGET_DIR/passed"; once "$(rare)"; times 5
echo c >"$inputs/a"; once "$(rare)"; times 6
# What was left out is a failure where everything has to run.
expect 0 'left_out x y' 'summary'
expect 1 'STRICT=1' 'left_out x y' 'summary'
exit $wrong
