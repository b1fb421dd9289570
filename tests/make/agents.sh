#!/usr/bin/env bash
# Whole turns of real external agents, against a model server on loopback: where the system allows it, in a network that has
# nothing else.
. tests/make/common.sh

# alone COMMAND…: runs a command without a network but for loopback.
alone() { unshare -n sh -c 'ip link set lo up && exec "$@"' - "$@"; }

if ! real_agents; then
  say '-- LEFT OUT: the external agents (Claude, Codex, Gemini, opencode), because npm is missing or cannot fetch them'
  exit 0
fi
step 'build the tests with external agents' cargo nextest run --locked $INNER --test engine --no-run
in=alone
if ! alone true 2>/dev/null; then
  in=
  say '-- NOT TRIED: external agents without a network, because unshare or ip is missing or may not be used'
fi
step 'external agents from the registry' $in cargo nextest run --locked --offline $INNER --run-ignored only \
  --no-fail-fast --test engine -E 'test(/^agents::real::/)'
