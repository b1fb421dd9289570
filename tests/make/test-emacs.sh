#!/usr/bin/env bash
# Runs the checks of the Emacs package.
. tests/make/common.sh

packages emacs emacs-tests
step 'build' cargo build --locked $INNER
emacs_tests
