#!/usr/bin/env bash
# Installs each artefact of `make dist` in an empty folder and tries it there.
. tests/make/common.sh

packages emacs dist-check
DIST=$CARGO_TARGET_DIR/dist
VERSION=$(cargo pkgid --locked | sed 's/.*[@#]//')
[ -e "$DIST/SHA256SUMS" ] || die 'there is nothing to check; run: make dist'
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
hello='{:id "1" :kind :request :op "handshake" :params {:client-info {:name "x" :version "1" :protocol-version "1.0"}}}'
script='{:turns [{:steps [{:delta "It works."}]}]}'

# answers COMMAND…: the program shakes hands, answers a turn of a script, and reads EDN. Its folders are those of the
# command, which sees nothing else of this machine's environment.
answers() {
  "$@" --version | grep -qx "edn-bridge $VERSION" &&
    printf '%s\n' "$hello" | "$@" --provider scripted --script /tmp/script.edn --state-dir /tmp/state serve |
      grep -q ':id "1".*:ok true' &&
    "$@" --provider scripted --script /tmp/script.edn --state-dir /tmp/state prompt x | grep -qx 'It works\.' &&
    printf '{:b 1,:a 2}' | "$@" edn | grep -qx '{:a 2 :b 1}'
}

# An empty root with nothing but a folder for temporary files.
empty_root() {
  mkdir -p "$1/tmp" "$1/dev"
  printf '%s' "$script" >"$1/tmp/script.edn"
  : >"$1/dev/null"
}

sums() { (cd "$DIST" && sha256sum -c SHA256SUMS); }

# A static program needs nothing: no library, no shell, no variable.
static() {
  local root=$work/static archive
  empty_root "$root"
  archive=$(echo "$DIST"/edn-bridge-"$VERSION"-*-musl.tar.gz)
  tar -xzf "$archive" --strip-components=1 -C "$root"
  answers env -i chroot "$root" /bin/edn-bridge
}

archives() {
  local archive root
  for archive in "$DIST"/edn-bridge-"$VERSION"-*.tar.gz; do
    root=$work/$(basename "$archive" .tar.gz)
    tar -xzf "$archive" -C "$work"
    tree "$root" || return 1
    mkdir -p "$root/home"
    ! grep -aqF -e "$HOME/" -e "$PWD/" "$root/bin/edn-bridge" || { echo 'it names folders of the build'; return 1; }
  done
}

# tree FOLDER: what a shell, man, info and Emacs read is there and well.
tree() {
  local share=$1/share page
  bash -c ". '$share/bash-completion/completions/edn-bridge' && complete -p edn-bridge" || return 1
  for page in "$share"/man/man1/*.gz; do
    zcat "$page" | groff -man -Tutf8 -ww >/dev/null || return 1
    # shellcheck disable=SC2015
  done
  zcat "$share/doc/edn-bridge/licences-of-dependencies.txt.gz" | grep -q '^serde ' &&
    emacs -Q --batch --eval "(progn (require 'info) (setq Info-directory-list '(\"$share/info\"))
      (info \"(edn-bridge)Models and keys\") (search-forward \"embedded\")
      (info \"(edn-bridge)Tutorial\") (Info-follow-reference \"models.md\" t) (princ Info-current-node))" |
      grep -q 'Models and keys'
}

# A Debian of its own, in which the package is installed with what it depends on.
debian() {
  local root=$work/debian deb
  deb=$(echo "$DIST"/edn-bridge_*.deb)
  mmdebstrap --variant=essential --include=libgcc-s1 "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" &&
    cp "$deb" "$root/tmp/" && printf '%s' "$script" >"$root/tmp/script.edn" &&
    chroot "$root" dpkg -i "/tmp/$(basename "$deb")" &&
    answers env -i chroot "$root" /usr/bin/edn-bridge &&
    tree "$root/usr" &&
    # Emacs finds the package without being told, and the program.
    emacs -Q --batch --eval "(progn (require 'package)
      (setq package-user-dir \"$work/none\" package-directory-list '(\"$root/usr/share/emacs/site-lisp/elpa\"))
      (package-initialize) (princ (commandp 'edn-bridge)))" | grep -qx t &&
    chroot "$root" dpkg --purge edn-bridge && [ ! -e "$root/usr/bin/edn-bridge" ]
}

image() {
  local from
  tar -C "$work/debian" -cf "$work/base.tar" . && from=$(buildah from scratch) && buildah add "$from" "$work/base.tar" / &&
    buildah commit "$from" local/base && cd "$DIST" &&
    buildah bud --isolation=chroot --build-arg BASE=local/base -t local/edn-bridge .
}

# The SBOM against its schema, and against what cargo says is in the program.
boms() {
  local bom
  for bom in "$DIST"/*.cdx.json; do
    PYTHONPATH=$1 python3 -c 'import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1]).read())
sys.exit(str(error) if error else 0)' "$bom" || return 1
  done
}

step 'checksums' sums
step 'the archives' archives
if [ "$(id -u)" -eq 0 ]; then
  if compgen -G "$DIST/*-musl.tar.gz" >/dev/null; then step 'the static program in an empty root' static
  else say '-- LEFT OUT: the static program, because it was not built'; fi
  if compgen -G "$DIST/*.deb" >/dev/null && has mmdebstrap; then step 'the Debian package in a Debian of its own' debian
  else say '-- LEFT OUT: the Debian package, because it was not built or mmdebstrap is missing'; fi
else say '-- LEFT OUT: the static program and the Debian package in roots of their own, because only root may make these'; fi
if has lintian && compgen -G "$DIST/*.deb" >/dev/null; then
  step 'lintian' lintian --allow-root --fail-on error "$DIST"/*.deb
else say '-- LEFT OUT: lintian, because it is missing'; fi
if has_pip && python3 -m pip install --quiet --target "$TOOLS/cyclonedx" "$CYCLONEDX" >"$LOGS/cyclonedx.log" 2>&1
then step 'the SBOMs against their schema' boms "$TOOLS/cyclonedx"
else say '-- LEFT OUT: the SBOMs against their schema, because pip cannot fetch it'; fi
say '== all is well'
