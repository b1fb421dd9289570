#!/usr/bin/env bash
# Whole turns of real agents of others, without a network, against a model server on loopback.
. tests/make/common.sh

if real_agents; then
  step 'agents of others from the registry' cargo nextest run --locked $INNER --run-ignored only --no-fail-fast \
    --test agents -E 'test(/^real::/)'
else
  say '-- LEFT OUT: the agents of others (Claude, Codex, Gemini, opencode), because npm is missing or cannot fetch them'
fi
