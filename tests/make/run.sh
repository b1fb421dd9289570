#!/usr/bin/env bash
# Opens Emacs on the bridge. With PROMPT, or without a terminal, prints one turn.
. tests/make/common.sh

packages emacs pip
# Link-time optimization takes minutes of a first build. Who has built a release keeps it.
if [ -x "$CARGO_TARGET_DIR/release/edn-bridge" ]; then build_program release
else
  say '-- built for a quick start, without link-time optimization; make build makes the program that make run then uses'
  build_program quick
fi
if has_model_tools && [ -z "${EDN_BRIDGE_PROVIDER:-}" ]; then
  # Shows its progress, and the reason for a failure.
  "$PROGRAM" models fetch >/dev/null || exit 1
  # The program itself chooses this model only by name.
  export EDN_BRIDGE_PROVIDER=embedded
  unset EDN_BRIDGE_MODEL
  say '-- a small demonstration model answers here, which is far too small to write code'
  keys=$(sed -n 's/.*:key-variables \[\([^]]*\)\].*/\1/p' src/provider/hosted/providers.edn | tr -d '"' | tr ' ' '\n')
  set_keys=$(for key in $keys; do [ -z "${!key:-}" ] || echo "$key"; done)
  [ -z "$set_keys" ] || say "-- it leaves unused: $(echo $set_keys); without make, the program uses a key that is in the environment"
fi
export EDN_BRIDGE_PROGRAM="$PROGRAM"
use='(setq edn-bridge-program (getenv "EDN_BRIDGE_PROGRAM"))'
if [ -z "$PROMPT" ] && [ -t 0 ] && [ -t 1 ]; then
  has emacs || die 'Emacs was not found; install it (Debian: apt-get install emacs-nox), or give a prompt: make run PROMPT="…"'
  exec emacs -Q -L emacs -l edn-bridge --eval "$use" --eval '(edn-bridge)'
fi
export PROMPT="${PROMPT:-Say hello in one short sentence.}"
if has emacs; then
  emacs -Q --batch -L emacs -l edn-bridge-batch --eval "$use" --eval '(edn-bridge-batch (getenv "PROMPT"))' </dev/null || exit 1
else
  say '-- without Emacs: the answer comes from the command line'
  "$PROGRAM" prompt -- "$PROMPT" </dev/null || exit 1
fi
