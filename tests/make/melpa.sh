#!/usr/bin/env bash
# Builds the Emacs package from its recipe for MELPA, with the manual, and checks it as others get it: package-lint,
# checkdoc, byte-compilation without warnings, autoloads and where it writes, on each Emacs that can be had. EMACS names
# one more program. To submit the recipe is a person's step.
. tests/make/common.sh

packages emacs emacs-tests dist
has emacs || die 'Emacs was not found; install it (Debian: apt-get install emacs-nox)'
fetch_emacs
work=$CARGO_TARGET_DIR/melpa
rm -rf "$work"
mkdir -p "$work"
info=
if has pandoc && has makeinfo; then
  step 'the manual' packaging/manual.sh "$work/manual"
  info=$work/manual/edn-bridge.info
else left_out 'the Info manual' 'pandoc or makeinfo (Debian: texinfo) is missing'; fi
has_package_lint || left_out 'package-lint' 'it is missing (Debian: elpa-package-lint)'
step 'the package' emacs -Q --batch -l emacs/build-package.el "$work" ${info:+"$info"}
tar=$(echo "$work"/edn-bridge-*.tar)
programs=(emacs)
for major in 29 30; do
  [ ! -s "$LOGS/emacs-$major" ] || programs+=("$(cat "$LOGS/emacs-$major")")
done
[ -z "${EMACS:-}" ] || programs+=("$EMACS")
for program in "${programs[@]}"; do
  version=$(emacs_version "$program")
  home=$work/home-$version
  mkdir -p "$home"
  # Byte compiler, checkdoc, package-lint, and that the recipe names the files.
  step "the sources on Emacs $version" env EDN_BRIDGE_TESTS='package-\|words' "$program" -Q --batch -l emacs/test/run-tests.el
  step "the package on Emacs $version" env -u XDG_CONFIG_HOME HOME="$home" "$program" -Q --batch -l emacs/test/check-package.el "$tar"
done
summary
