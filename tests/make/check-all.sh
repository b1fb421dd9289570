#!/usr/bin/env bash
# Runs what is long and seldom decides, whether or not its inputs changed, and notes their digests in check-all.lock, which
# is committed: `make test` runs such a step when its digest is another one.
. tests/make/common.sh

has cargo || die 'cargo was not found; install Rust from https://rustup.rs and try again'
: >"$TIMES"
: >"$OMITTED"
export CHECK_ALL=1
packages emacs emacs-tests model pip
fetch_emacs
step 'build' cargo build --locked $INNER
emacs_tests
seldom_steps
advisories
step 'tests from a folder below the temporary folder' tests/make/below-tmp.sh
summary
