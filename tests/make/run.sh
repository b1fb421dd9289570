#!/usr/bin/env bash
# Opens Emacs on the bridge. With PROMPT, or without a terminal, prints one turn.
. tests/make/common.sh

packages emacs pip
build_release
if has_model_tools; then
  # Shows its progress, and the reason for a failure.
  "$RELEASE" models fetch >/dev/null || exit 1
fi
export EDN_BRIDGE_PROGRAM="$RELEASE"
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
  "$RELEASE" prompt -- "$PROMPT" </dev/null || exit 1
fi
