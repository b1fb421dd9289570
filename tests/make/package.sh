#!/usr/bin/env bash
# Packs the Emacs package as a tar file for package-install-file, with its manual if pandoc and makeinfo are there.
. tests/make/common.sh

packages emacs
has emacs || die 'Emacs was not found; install it (Debian: apt-get install emacs-nox)'
info=
if has pandoc && has makeinfo; then
  packaging/manual.sh "$CARGO_TARGET_DIR/manual" >"$LOGS/manual.log" 2>&1 || die "the manual cannot be made ($LOGS/manual.log)"
  info=$CARGO_TARGET_DIR/manual/edn-bridge.info
else
  say '-- without pandoc and makeinfo (texinfo) the package has no Info manual'
fi
emacs -Q --batch -l emacs/build-package.el "$CARGO_TARGET_DIR" ${info:+"$info"}
