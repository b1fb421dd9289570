#!/bin/sh
# fetch-emacs-29.sh FOLDER: Emacs 29 for the tests, of Ubuntu 24.04.
#
# No release of Debian has Emacs 29. Prints the name of a program that runs it. Nothing is installed: the packages
# are unpacked below FOLDER with all their libraries, because the C library must be Ubuntu's too. The key that signs
# them is from Debian's package ubuntu-keyring. Where it cannot be had, one line on stderr says why and the status
# is 1. What is there already is used again.
set -eu

refuse() { printf '%s\n' "$*" >&2; exit 1; }

folder=${1:?usage: fetch-emacs-29.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
root=$folder/root
launcher=$root/usr/bin/emacs-nox
debian=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=http://deb.debian.org/debian
ubuntu=http://archive.ubuntu.com/ubuntu

if [ -x "$launcher" ] && "$launcher" -Q --batch >/dev/null 2>&1; then
  printf '%s\n' "$launcher"
  exit 0
fi

for program in apt-get dpkg awk; do
  command -v "$program" >/dev/null 2>&1 || refuse "$program is missing: this needs the packages of Debian"
done
[ "$(dpkg --print-architecture)" = amd64 ] || refuse "it is fetched for amd64 only"
[ -r "$debian" ] || refuse "$debian is missing"

log=$folder/fetch.log
rm -rf "$root" "$folder/debs" "$folder/lisp"
mkdir -p "$folder/debs"
: >"$log"

# apt STATE ARGUMENT…: apt-get with sources, lists and a state of its own, in which nothing is installed.
apt() {
  state=$folder/$1; shift
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  : >>"$state/status"
  apt-get -q -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$state/lists" -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
    -o APT::Sandbox::User=root -o APT::Architectures=amd64 -o Acquire::Languages=none "$@"
}
fetch() { (cd "$folder/debs" && apt "$@") >>"$log" 2>&1 || refuse "the packages could not be fetched ($log)"; }
unpack() { for package in "$folder"/debs/*.deb; do dpkg -x "$package" "$1"; done; rm -f "$folder"/debs/*.deb; }

mkdir -p "$folder/key" "$folder/emacs"
printf 'deb [signed-by=%s] %s trixie main\n' "$debian" "$mirror" >"$folder/key/sources.list"
apt key update >>"$log" 2>&1 || refuse "$mirror could not be read ($log)"
fetch key download ubuntu-keyring
unpack "$folder/key/root"
printf 'deb [signed-by=%s] %s noble main universe\n' \
  "$folder/key/root/usr/share/keyrings/ubuntu-archive-keyring.gpg" "$ubuntu" >"$folder/emacs/sources.list"
apt emacs update >>"$log" 2>&1 || refuse "$ubuntu could not be read ($log)"
packages=$(apt emacs install -s --no-install-recommends emacs-nox 2>>"$log" |
  awk '/^Inst/ && $2 ~ /^(lib|emacs)/ && $2 !~ /-dev|perl|systemd|pam|dpkg/ { print $2 }')
# shellcheck disable=SC2086
fetch emacs download $packages
unpack "$root"
rm -rf "$folder/key" "$folder/emacs" "$folder/debs"

share=$(echo "$root"/usr/share/emacs/29.*)
loader=$root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2
[ -x "$launcher" ] && [ -d "$share/lisp" ] && [ -x "$loader" ] || refuse "the packages are not laid out as expected"
mv "$launcher" "$launcher.binary"
# There is no compiler for native code, and so nothing is to ask for one.
mkdir "$folder/lisp"
cat >"$folder/lisp/comp.el" <<'END'
;;; comp.el --- No native code  -*- lexical-binding: t; -*-
(defun native--compile-async (&rest _))
(defun comp-subr-trampoline-install (&rest _))
(provide 'comp)
END
cat >"$launcher" <<END
#!/bin/sh
export EMACSLOADPATH='$folder/lisp:$share/lisp' EMACSDATA='$share/etc' EMACSDOC='$share/etc' EMACSPATH='$root/usr/bin'
exec '$loader' --library-path '$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu' --argv0 '$launcher' \\
  '$launcher.binary' --dump-file='$(find "$root" -name '*.pdmp' | head -n 1)' "\$@"
END
chmod +x "$launcher"
"$launcher" -Q --batch >>"$log" 2>&1 || refuse "the Emacs of $ubuntu does not run here ($log)"
printf '%s\n' "$launcher"
