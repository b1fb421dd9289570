#!/bin/sh
# fetch-emacs-30.sh FOLDER: Emacs 30 for the tests, of Debian's backports.
#
# Prints the name of a program that runs it. Nothing is installed: the packages are unpacked below FOLDER, and
# with them those libraries that this machine lacks. The mirror is the one in this machine's own package sources.
# Where it cannot be had, one line on stderr says why and the status is 1. What is there already is used again.
set -eu

refuse() { printf '%s\n' "$*" >&2; exit 1; }

folder=${1:?usage: fetch-emacs-30.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
launcher=$folder/emacs

if [ -x "$launcher" ] && "$launcher" -Q --batch >/dev/null 2>&1; then
  printf '%s\n' "$launcher"
  exit 0
fi

for program in apt-get dpkg awk; do
  command -v "$program" >/dev/null 2>&1 || refuse "$program is missing: this needs the packages of Debian"
done
codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
[ -n "$codename" ] || refuse 'this system does not say which release it is'
suite=$codename-backports

# The first source that has this release itself: its mirror, and the key that signs it.
sources=$(find /etc/apt/sources.list /etc/apt/sources.list.d -name '*.list' -o -name '*.sources' 2>/dev/null) || true
line=$(awk -v codename="$codename" '
  function found(uri, key) { printf "deb %s%s %s-backports main\n", key == "" ? "" : "[signed-by=" key "] ", uri, codename; done = 1; exit }
  function block() { if (has) found(uri, key); uri = key = ""; has = 0 }
  FNR == 1 { block() }
  /^[ \t]*#/ { next }
  /^deb[ \t]/ {
    options = key1 = ""
    if (match($0, /\[[^]]*\]/)) {
      options = substr($0, RSTART + 1, RLENGTH - 2)
      $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
      if (match(options, /signed-by=[^ ]*/)) key1 = substr(options, RSTART + 10, RLENGTH - 10)
    }
    if ($3 == codename) found($2, key1)
  }
  /^URIs:/ { uri = $2 }
  /^Signed-By:/ { key = $2 }
  /^Suites:/ { for (i = 2; i <= NF; i++) if ($i == codename) has = 1 }
  /^[ \t]*$/ { block() }
  END { if (!done) block() }
' $sources) || true
[ -n "$line" ] || refuse "no package source of this machine has the release $codename"

state=$folder/apt
rm -rf "$folder/debs" "$folder/root"
mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$folder/debs"
printf '%s\n%s\n' "$line" "$line" | sed '1s/-backports main$/ main/' >"$state/sources.list"
apt() {
  apt-get -q -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache" -o APT::Sandbox::User=root \
    -o Acquire::Languages=none -t "$suite" "$@"
}
log=$folder/fetch.log
apt update >"$log" 2>&1 || refuse "the package sources could not be read ($log)"
packages=$(apt install -s --no-install-recommends emacs-nox 2>>"$log" | awk '/^Inst/ { print $2 }') || true
case " $(echo $packages) " in
  *' emacs-nox '*) ;;
  *) refuse "$suite has no Emacs that is newer than this system's" ;;
esac
(cd "$folder/debs" && apt download $packages) >>"$log" 2>&1 || refuse "the packages could not be fetched ($log)"
for package in "$folder"/debs/*.deb; do dpkg -x "$package" "$folder/root"; done
rm -rf "$folder/debs" "$state"

binary=$folder/root/usr/bin/emacs-nox
share=$(echo "$folder"/root/usr/share/emacs/[0-9]*)
[ -x "$binary" ] && [ -d "$share/lisp" ] || refuse "the packages of $suite are not laid out as expected"
# Emacs looks for its dump beside itself, and for the rest where it was meant to be installed.
cp "$(find "$folder/root/usr" -name 'emacs*.pdmp' | head -n 1)" "$binary.pdmp"
cat >"$launcher" <<END
#!/bin/sh
export EMACSLOADPATH='$share/lisp' EMACSDATA='$share/etc' EMACSDOC='$share/etc' EMACSPATH='$folder/root/usr/bin'
export LD_LIBRARY_PATH="$(echo "$folder"/root/usr/lib/*-linux-gnu*)\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
exec '$binary' "\$@"
END
chmod +x "$launcher"
"$launcher" -Q --batch >>"$log" 2>&1 || refuse "the Emacs of $suite does not run here ($log)"
printf '%s\n' "$launcher"
