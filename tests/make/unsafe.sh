#!/usr/bin/env bash
# Counts the lines with unsafe code in each locked dependency; SECURITY.md groups them. FEATURES selects the build.
. tests/make/common.sh

cargo fetch --locked --quiet
registry=$(ls -d "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/ | head -n 1)
cargo tree --locked --no-default-features --features "${FEATURES-index}" --edges normal --prefix none --format '{p}' |
  awk '{ print $1, substr($2, 2) }' | sort -u | while read -r name version; do
    [ -d "$registry$name-$version/src" ] || continue
    lines=$(find "$registry$name-$version/src" -name '*.rs' -exec sed 's,//.*,,' {} + |
      grep -cE '\bunsafe\b[^_]' || true)
    [ "$lines" -eq 0 ] || printf '%6d  %s %s\n' "$lines" "$name" "$version"
  done | sort -rn
