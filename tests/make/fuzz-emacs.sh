#!/usr/bin/env bash
# Shows random and hostile Markdown in Emacs. FUZZ_SECONDS sets the time, FUZZ_SEED repeats a run.
. tests/make/common.sh

packages emacs
has emacs || die 'Emacs was not found; install it (Debian: apt-get install emacs-nox)'
FUZZ_SECONDS="${FUZZ_SECONDS:-600}" FUZZ_SEED="${FUZZ_SEED:-}" \
  emacs -Q --batch -L emacs -L emacs/test -l edn-bridge-fuzz-tests -f edn-bridge-fuzz-tests-batch
