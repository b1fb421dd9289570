#!/usr/bin/env bash
# Builds the release binary, with the embedded model if its tools are there.
. tests/make/common.sh

build_program release
say "$PROGRAM"
