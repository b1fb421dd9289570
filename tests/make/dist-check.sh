#!/usr/bin/env bash
# Installs each artefact of `make dist` in an empty folder and tries it there.
. tests/make/common.sh

packages emacs dist-check node
DIST=$CARGO_TARGET_DIR/dist
VERSION=$(cargo pkgid --locked | sed 's/.*[@#]//')
[ -e "$DIST/SHA256SUMS" ] || die 'there is nothing to check; run: make dist'
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
hello='{:id "1" :kind :request :op "handshake" :params {:client-info {:name "x" :version "1" :protocol-version "1.0"}}}'
script='{:turns [{:steps [{:delta "It works."}]}]}'

# answers FOLDER COMMAND…: the program shakes hands, answers a turn of FOLDER/script.edn, and reads EDN. Pipes are read to
# their end: a writer that is cut off would fail.
answers() {
  local options=(--provider scripted --script "$1/script.edn" --state-dir "$1/state"); shift
  "$@" --version | grep -x "edn-bridge $VERSION" >/dev/null &&
    printf '%s\n' "$hello" | "$@" "${options[@]}" serve | grep ':id "1".*:ok true' >/dev/null &&
    "$@" "${options[@]}" prompt x | grep -x 'It works\.' >/dev/null &&
    printf '{:b 1,:a 2}' | "$@" edn | grep -x '{:a 2 :b 1}' >/dev/null
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
  answers /tmp env -i EDN_BRIDGE_DAEMON=never "$(command -v chroot)" "$root" /bin/edn-bridge
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
  done
  zcat "$share/doc/edn-bridge/licences-of-dependencies.txt.gz" | grep '^serde ' >/dev/null &&
    emacs -Q --batch --eval "(progn (require 'info) (setq Info-directory-list '(\"$share/info\"))
      (info \"(edn-bridge)Models and keys\") (search-forward \"embedded\")
      (info \"(edn-bridge)A real model\") (Info-follow-reference \"Models and keys\") (princ Info-current-node))" |
      grep 'Models and keys' >/dev/null
}

# Each wheel, in an environment of its own. pipx does the same, and puts a link to the program elsewhere.
wheels() {
  local wheel place=0
  for wheel in "$DIST"/edn_bridge-*.whl; do
    place=$((place + 1))
    python3 -m venv "$work/wheel-$place" &&
      "$work/wheel-$place/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel" &&
      answers "$work" env "HOME=$work" EDN_BRIDGE_DAEMON=never "$work/wheel-$place/bin/edn-bridge" &&
      "$work/wheel-$place/bin/pip" uninstall --quiet --yes edn-bridge && [ ! -e "$work/wheel-$place/bin/edn-bridge" ] ||
      return 1
  done
}

npm_package() {
  HOME=$work npm install --loglevel error --no-update-notifier --offline --global --prefix "$work/npm" "$DIST/edn-bridge-$VERSION-npm.tgz" &&
    answers "$work" env "HOME=$work" EDN_BRIDGE_DAEMON=never "$work/npm/bin/edn-bridge"
}

# The Emacs package, as a person installs it who has nothing else.
emacs_tar() {
  local use="(require 'package) (setq package-user-dir \"$work/elpa\" package-archives nil)"
  emacs -Q --batch --eval "(progn $use (package-initialize) (package-install-file \"$DIST/edn-bridge-$VERSION.tar\"))" &&
    emacs -Q --batch --eval "(progn $use (package-initialize) (require 'edn-bridge) (princ (commandp 'edn-bridge)))" |
      grep -x t >/dev/null
}

# A Debian of its own, in which the package is installed with what it depends on.
debian() {
  local root=$work/debian deb
  deb=$(echo "$DIST"/edn-bridge_*.deb)
  mmdebstrap --variant=apt --include=libgcc-s1 "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" &&
    cp "$deb" "$root/tmp/" && printf '%s' "$script" >"$root/tmp/script.edn" &&
    chroot "$root" dpkg -i "/tmp/$(basename "$deb")" &&
    answers /tmp env -i EDN_BRIDGE_DAEMON=never "$(command -v chroot)" "$root" /usr/bin/edn-bridge &&
    tree "$root/usr" &&
    # Emacs finds the package without being told, and the program.
    emacs -Q --batch --eval "(progn (require 'package)
      (setq package-user-dir \"$work/none\" package-directory-list '(\"$root/usr/share/emacs/site-lisp/elpa\"))
      (package-initialize) (princ (commandp 'edn-bridge)))" | grep -x t >/dev/null &&
    chroot "$root" dpkg --purge edn-bridge && [ ! -e "$root/usr/bin/edn-bridge" ]
}

# The Containerfile, on the Debian from above instead of the one of a registry.
image() {
  local root=$work/containers base name
  own() { buildah --root "$root/root" --runroot "$root/run" --storage-driver vfs "$@"; }
  rm -rf "$work/debian/tmp"/*
  base=$(own from scratch) && own add "$base" "$work/debian" / && own commit "$base" localhost/base &&
    own build --isolation chroot --network host --pull-never --build-arg BASE=localhost/base -t edn-bridge "$DIST" &&
    name=$(own from --pull-never edn-bridge) && own copy "$name" "$work/script.edn" /tmp/script.edn &&
    answers /tmp own run --isolation chroot "$name" -- edn-bridge
}

# The image of the static program: nothing is below it, and nothing is fetched.
static_image() {
  local name
  own() { buildah --root "$work/static-root" --runroot "$work/static-run" --storage-driver vfs "$@"; }
  own build --isolation chroot --network host -t edn-bridge-static -f "$DIST/Containerfile.static" "$DIST" &&
    name=$(own from --pull-never edn-bridge-static) && own copy "$name" "$work/script.edn" /tmp/script.edn &&
    answers /tmp own run --isolation chroot "$name" -- edn-bridge
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

# From the checkout; the fast profile, since the slow one is that of the packages.
step 'cargo install' cargo install --locked --path . --profile quick $SMALL --root "$work/install"
printf '%s' "$script" >"$work/script.edn"
step 'what cargo installed' answers "$work" env "HOME=$work" EDN_BRIDGE_DAEMON=never "$work/install/bin/edn-bridge"
# What a registry would get, compiled from that.
step 'the crates' cargo package --workspace --locked $INNER
step 'checksums' sums
step 'the archives' archives
step 'the Emacs package in an empty folder' emacs_tar
if python3 -m venv "$work/venv" >"$LOGS/venv.log" 2>&1; then step 'the wheels in environments of their own' wheels
else say '-- LEFT OUT: the wheels, because python3 cannot make environments (Debian: python3-venv)'; fi
if has npm; then step 'the npm package in an empty folder' npm_package
else say '-- LEFT OUT: the npm package, because npm is missing'; fi
if [ "$(id -u)" -eq 0 ]; then
  if compgen -G "$DIST/*-musl.tar.gz" >/dev/null; then step 'the static program in an empty root' static
  else say '-- LEFT OUT: the static program, because it was not built'; fi
  if compgen -G "$DIST/*.deb" >/dev/null && has mmdebstrap; then step 'the Debian package in a Debian of its own' debian
  else say '-- LEFT OUT: the Debian package, because it was not built or mmdebstrap is missing'; fi
else say '-- LEFT OUT: the static program and the Debian package in roots of their own, because only root may make these'; fi
if has buildah && buildah --root "$work/try" --runroot "$work/try" --storage-driver vfs from scratch >"$LOGS/buildah.log" 2>&1; then
  if [ -d "$work/debian" ]; then step 'the image' image
  else say '-- LEFT OUT: the image, because there is no Debian to build it on'; fi
  if [ -e "$DIST/Containerfile.static" ]; then step 'the image of the static program' static_image
  else say '-- LEFT OUT: the image of the static program, because that was not built'; fi
else say "-- LEFT OUT: the images, because buildah is missing or does not run here: $(tail -n 1 "$LOGS/buildah.log" 2>&1)"; fi
if has lintian && compgen -G "$DIST/*.deb" >/dev/null; then
  # The project has no address yet.
  step 'lintian' lintian --allow-root --fail-on error \
    --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$DIST"/*.deb
else say '-- LEFT OUT: lintian, because it is missing'; fi
if has_pip && python3 -m pip install --quiet --target "$TOOLS/cyclonedx" "$CYCLONEDX" >"$LOGS/cyclonedx.log" 2>&1
then step 'the SBOMs against their schema' boms "$TOOLS/cyclonedx"
else say '-- LEFT OUT: the SBOMs against their schema, because pip cannot fetch it'; fi
say '== all is well'
