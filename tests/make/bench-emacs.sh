#!/usr/bin/env bash
# Runs the benchmarks of the Emacs package.
. tests/make/common.sh

packages emacs
has emacs || die 'Emacs was not found; install it (Debian: apt-get install emacs-nox)'
emacs -Q --batch -L emacs -l emacs/bench/edn-bridge-bench.el
