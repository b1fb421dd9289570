#!/usr/bin/env bash
# Takes pictures of the Emacs package from a real run. Debian's emacs-gtk and emacs-nox cannot both be installed, so
# emacs-gtk is unpacked into the target folder, with its missing libraries.
. tests/make/common.sh

packages emacs screenshots node
mcp_servers
has Xvfb || die 'Xvfb was not found; install it (Debian: apt-get install xvfb)'
program=${EDN_BRIDGE_PROGRAM:-}
if [ -z "$program" ]; then
  step 'build' cargo build --locked --no-default-features
  program="$DEBUG"
fi
gtk="$CARGO_TARGET_DIR/emacs-gtk"
if [ ! -x "$gtk/usr/bin/emacs-gtk" ]; then
  has apt-get && has dpkg || die 'this needs Debian packages'
  rm -rf "$gtk" "$gtk.debs"
  mkdir -p "$gtk.debs"
  missing=$(apt-get install -s --no-install-recommends emacs-gtk | awk '/^Inst/ { print $2 }')
  step 'fetch emacs-gtk' env -C "$gtk.debs" apt-get download $missing
  for package in "$gtk.debs"/*.deb; do dpkg -x "$package" "$gtk"; done
  rm -rf "$gtk.debs"
fi
display=$(mktemp)
Xvfb -displayfd 3 -screen 0 1280x1024x24 -nolisten tcp 3>"$display" >"$LOGS/xvfb.log" 2>&1 &
server=$!
trap 'kill $server; rm -f "$display"' EXIT
for _ in {1..100}; do [ ! -s "$display" ] || break; sleep 0.1; done
[ -s "$display" ] || die "Xvfb did not start ($LOGS/xvfb.log)"
step 'screenshots' env DISPLAY=":$(<"$display")" GDK_BACKEND=x11 GSETTINGS_BACKEND=memory \
  LD_LIBRARY_PATH="$(echo "$gtk"/usr/lib/*-linux-gnu*)" EDN_BRIDGE_PROGRAM="$program" \
  timeout 120 "$gtk/usr/bin/emacs-gtk" \
  --dump-file="$(find "$gtk/usr/libexec" -name emacs.pdmp)" \
  -Q -l emacs/test/screenshots.el emacs/screenshots
