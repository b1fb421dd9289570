#!/usr/bin/env bash
# Builds into target/dist what is handed out: archives of the program, a Debian package, wheels, an npm package, the Emacs
# package, and for each program an SBOM and the licences of all that it contains. docs/installing.md lists them.
# STATIC=only and STATIC=no build one of the two programs.
. tests/make/common.sh

has cargo || die 'cargo was not found; install Rust from https://rustup.rs and try again'
# Each of the two programs has needs of its own.
purposes='emacs dist' needed='emacs pandoc makeinfo python3'
[ "${STATIC:-}" = only ] || { purposes+=' model dist-debian'; needed+=' dpkg dpkg-deb dpkg-shlibdeps'; }
[ "${STATIC:-}" = no ] || { purposes+=' dist-static'; needed+=' musl-gcc'; }
packages $purposes
for program in $needed; do has "$program" || die "$program was not found"; done
VERSION=$(cargo pkgid --locked | sed 's/.*[@#]//')
DIST=$CARGO_TARGET_DIR/dist
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
rm -rf "$DIST"
mkdir -p "$DIST"

# One commit gives the same bytes in any folder, with the same compilers: no path and no time of the build gets in.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
cargo_home=${CARGO_HOME:-$HOME/.cargo}
rust=$(rustc --print sysroot)
# Cargo's form for options with blanks. C compilers have none.
CARGO_ENCODED_RUSTFLAGS=$(printf -- '--remap-path-prefix=%s\x1f' "$PWD=/edn-bridge" "$cargo_home=/cargo" "$rust=/rust")
CARGO_ENCODED_RUSTFLAGS+=--remap-path-prefix=$CARGO_TARGET_DIR=/target
[[ $cargo_home$CARGO_TARGET_DIR != *[[:space:]]* ]] ||
  die "no path with a blank can be given to the C compiler; set CARGO_HOME ($cargo_home) and CARGO_TARGET_DIR\
 ($CARGO_TARGET_DIR) to folders without"
CFLAGS="-ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$CARGO_TARGET_DIR=/target"
export CARGO_ENCODED_RUSTFLAGS CFLAGS CXXFLAGS="$CFLAGS"

# pack FOLDER NAME: a tar of FOLDER/NAME, to standard output, with no trace of who made it and when.
pack() {
  tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf - "$2"
}

emacs_package() {
  local name=edn-bridge-$VERSION
  emacs -Q --batch -l emacs/build-package.el "$work" "$work/edn-bridge.info" && mkdir "$work/elpa" && tar -C "$work/elpa" -xf "$work/$name.tar" &&
    pack "$work/elpa" "$name" >"$DIST/$name.tar"
}

# build TARGET FEATURES…: the program, at $built. A folder of its own keeps the usual build as it is.
build() {
  local target=$1; shift
  built=$CARGO_TARGET_DIR/dist-build/$target/release/edn-bridge
  CC_x86_64_unknown_linux_musl=musl-gcc CARGO_PROFILE_RELEASE_STRIP=symbols \
    step "build for $target" cargo build --release --locked --target-dir "$CARGO_TARGET_DIR/dist-build" --target "$target" "$@"
  step "what the program for $target contains" \
    python3 packaging/inside.py "$DIST/edn-bridge-$VERSION-$target" "$VERSION" --target "$target" "$@"
}

# tree FOLDER TARGET: the program with what belongs to it, as below /usr.
tree() {
  local share=$1/share page
  install -D -m 755 "$built" "$1/bin/edn-bridge"
  install -d "$share"/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d,edn-bridge,man/man1,info}
  "$native" completion bash >"$share/bash-completion/completions/edn-bridge"
  "$native" completion zsh >"$share/zsh/vendor-completions/_edn-bridge"
  "$native" completion fish >"$share/fish/vendor_completions.d/edn-bridge.fish"
  "$native" completion nushell >"$share/edn-bridge/edn-bridge.nu"
  "$native" man "$share/man/man1" >/dev/null
  gzip -9n "$share"/man/man1/*
  gzip -9nc "$work/edn-bridge.info" >"$share/info/edn-bridge.info.gz"
  install -D -m 644 -t "$share/doc/edn-bridge" README.md LICENSE-MIT LICENSE-APACHE
  gzip -9nc "$DIST/edn-bridge-$VERSION-$2.licences.txt" >"$share/doc/edn-bridge/licences-of-dependencies.txt.gz"
  gzip -9nc CHANGELOG.md >"$share/doc/edn-bridge/changelog.gz"
}

archive() {
  local name=edn-bridge-$VERSION-$1
  tree "$work/$name" "$1"
  pack "$work" "$name" | gzip -9n >"$DIST/$name.tar.gz"
}

# carried wheel|npm TARGET: a package that carries the program, for the people who install with pipx or npm.
carried() {
  python3 packaging/pip_npm.py "$1" "$built" "$VERSION" "$2" "$DIST/edn-bridge-$VERSION-$2.licences.txt" "$DIST"
}

# The package has the Emacs package too, where Debian's Emacs finds packages.
debian() {
  local root=$work/debian/edn-bridge arch elpa size depends date
  arch=$(dpkg --print-architecture)
  tree "$root/usr" "$1"
  rm "$root/usr/share/doc/edn-bridge"/LICENSE-*
  elpa=$root/usr/share/emacs/site-lisp/elpa
  mkdir -p "$elpa" "$root/DEBIAN"
  tar -C "$elpa" -xf "$DIST/edn-bridge-$VERSION.tar"
  emacs -Q --batch --eval "(progn (require 'package) (package-generate-autoloads \"edn-bridge\" \"$elpa/edn-bridge-$VERSION\"))"
  rm -f "$elpa/edn-bridge-$VERSION"/*~
  # In variables, because a command that fails inside an argument fails nothing.
  size=$(du -sk --apparent-size "$root/usr" | cut -f1)
  depends=$(cd "$work" && shlibs "$root/usr/bin/edn-bridge")
  date=$(date -Rd "@$SOURCE_DATE_EPOCH")
  sed -e "s/@VERSION@/$VERSION/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$size/" -e "s/@DEPENDS@/$depends/" \
    packaging/control >"$root/DEBIAN/control"
  { cat packaging/copyright; sed 's/^$/./; s/^/ /' LICENSE-MIT; } >"$root/usr/share/doc/edn-bridge/copyright"
  printf 'edn-bridge (%s) unstable; urgency=low\n\n  * See changelog.gz.\n\n -- edn-bridge <edn-bridge@localhost>  %s\n' \
    "$VERSION" "$date" | gzip -9n >"$root/usr/share/doc/edn-bridge/changelog.Debian.gz"
  (cd "$root" && find usr -type f | sort | xargs -d '\n' md5sum) >"$root/DEBIAN/md5sums"
  chmod -R u=rwX,go=rX "$root"
  find "$root" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group --build "$root" "$DIST/edn-bridge_${VERSION}_$arch.deb"
}

# The packages of the libraries that a program is linked to.
shlibs() {
  mkdir -p debian && : >debian/control
  dpkg-shlibdeps -O -e"$1" | sed -n 's/^shlibs:Depends=//p' | grep .
}

step 'the manual' packaging/manual.sh "$work"
step 'the Emacs package' emacs_package
native=
if [ "${STATIC:-}" != only ]; then
  host=$(rustc --print host-tuple 2>/dev/null || rustc -vV | sed -n 's/^host: //p')
  if has_model_tools; then build "$host"
  else say '-- without the embedded model: its tools are missing'; build "$host" $SMALL; fi
  native=$built
  step "the archive for $host" archive "$host"
  step "the wheel for $host" carried wheel "$host"
  # npm takes one program for all C libraries.
  [ "${STATIC:-}" != no ] || step "the npm package for $host" carried npm "$host"
  step 'the Debian package' debian "$host"
fi
if [ "${STATIC:-}" != no ]; then
  static=$(uname -m)-unknown-linux-musl
  step 'the standard library for static programs' rustup target add "$static"
  build "$static" $SMALL
  native=${native:-$built}
  step "the archive for $static" archive "$static"
  step "the wheel for $static" carried wheel "$static"
  step "the npm package for $static" carried npm "$static"
  sed "s/@NAME@/edn-bridge-$VERSION-$static/" packaging/Containerfile.static >"$DIST/Containerfile.static"
fi
cp packaging/Containerfile "$DIST/Containerfile"
(cd "$DIST" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
say "== $DIST"
(cd "$DIST" && ls -sh1 >&2)
