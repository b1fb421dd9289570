#!/bin/sh
# manual.sh FOLDER: writes the manual into FOLDER, as edn-bridge.texi and edn-bridge.info.
#
# Its chapters are the pages of docs/ in the order in which README.md lists them, and the page of the Emacs package, with
# indices of its commands, options and keys. Needs pandoc, makeinfo (texinfo) and Emacs, which knows what is a command.
set -eu

folder=${1:?usage: packaging/manual.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/.."

emacs -Q --batch -L emacs -l edn-bridge --eval '
(mapatoms
 (lambda (symbol)
   (when (and (string-prefix-p "edn-bridge" (symbol-name symbol))
              (not (string-search "--" (symbol-name symbol))))
     (when (commandp symbol) (princ (format "command %s\n" symbol)))
     (when (custom-variable-p symbol) (princ (format "option %s\n" symbol))))))' >"$folder/symbols" 2>/dev/null

pages=$({ sed -n '/^## Where to read on/,$p' README.md; cat README.md; } | grep -o 'docs/[a-z-]*\.md' | awk '!seen[$0]++')
# shellcheck disable=SC2086
EDN_BRIDGE_SYMBOLS=$folder/symbols pandoc -s -f gfm -t texinfo -L packaging/manual.lua -H packaging/manual-head.texi \
  -M title=edn-bridge -o "$folder/edn-bridge.texi" $pages emacs/README.md
(cd "$folder" && makeinfo --no-split --error-limit=0 edn-bridge.texi)
rm -f "$folder/symbols"
