#!/usr/bin/env bash
# Installs the tools of the tests.
. tests/make/common.sh

packages emacs emacs-tests model pip
typos_tool $TYPOS
tool allium $ALLIUM
tool cargo-nextest $NEXTEST
tool cargo-deny $CARGO_DENY
rm -rf "$TOOLS/build"
