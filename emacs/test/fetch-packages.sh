#!/bin/sh
# fetch-packages.sh FOLDER: packages that people use beside this one, of Debian 13, for the tests.
#
# Prints the folder of their sources. Nothing is installed: the packages are unpacked below FOLDER. They run on every
# Emacs that the tests use. Where they cannot be had, one line on stderr says why and the status is 1. What is there
# already is used again, while it is what this file names. Themes of others are among them, for the test of colours.
set -eu

refuse() { printf '%s\n' "$*" >&2; exit 1; }

folder=${1:?usage: fetch-packages.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
sources=$folder/root/usr/share/emacs/site-lisp/elpa-src
key=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=http://deb.debian.org/debian
packages='vertico corfu corfu-terminal popon orderless marginalia embark company which-key evil goto-chg
  magit magit-section with-editor transient llama dash compat
  doom-themes modus-themes solarized-theme zenburn-theme'

if [ "$(cat "$folder/complete" 2>/dev/null)" = "$packages" ]; then
  printf '%s\n' "$sources"
  exit 0
fi

for program in apt-get dpkg; do
  command -v "$program" >/dev/null 2>&1 || refuse "$program is missing: this needs the packages of Debian"
done
[ -r "$key" ] || refuse "$key is missing"

state=$folder/apt
log=$folder/fetch.log
rm -rf "$folder/root" "$folder/debs"
mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$folder/debs"
: >"$state/status"
printf 'deb [signed-by=%s] %s trixie main\n' "$key" "$mirror" >"$state/sources.list"
apt() {
  apt-get -q -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$state/lists" -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
    -o APT::Sandbox::User=root -o Acquire::Languages=none "$@"
}
apt update >"$log" 2>&1 || refuse "$mirror could not be read ($log)"
# shellcheck disable=SC2046
(cd "$folder/debs" && apt download $(printf 'elpa-%s ' $packages)) >>"$log" 2>&1 ||
  refuse "the packages could not be fetched ($log)"
for package in "$folder"/debs/*.deb; do dpkg -x "$package" "$folder/root"; done
rm -rf "$folder/debs" "$state"
printf '%s\n' "$packages" >"$folder/complete"
printf '%s\n' "$sources"
