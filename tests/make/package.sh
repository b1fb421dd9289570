#!/usr/bin/env bash
# Packs the Emacs package as a tar file for package-install-file.
. tests/make/common.sh

packages emacs
has emacs || die 'Emacs was not found; install it (Debian: apt-get install emacs-nox)'
emacs -Q --batch -l emacs/build-package.el "$CARGO_TARGET_DIR"
