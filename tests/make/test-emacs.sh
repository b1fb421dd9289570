#!/usr/bin/env bash
# Runs the checks of the Emacs package, on each Emacs that can be had.
. tests/make/common.sh

: >"$TIMES"
: >"$OMITTED"
packages emacs emacs-tests
fetch_emacs
step 'build' cargo build --locked $INNER
CHECK_ALL=once emacs_tests
summary
