#!/usr/bin/env bash
# What each engine of a realm brings: these crates and no other, and without its feature the program has none of them. A
# crate that is missing from a list here has become one of all programs.

set -euo pipefail
export LC_ALL=C

# crates FEATURES: what the program has, one target for all machines.
crates() {
  cargo tree --locked -e normal --target x86_64-unknown-linux-gnu --prefix none --format '{p}' \
    --no-default-features --features "$1" | cut -d ' ' -f 1 | sort -u
}

# brings FEATURE CRATES…: fails unless the feature adds these crates, sorted.
brings() {
  local feature=$1; shift
  diff -U 99 --label 'in this script' --label "with $feature" \
    <(printf '%s\n' "$@") <(comm -13 <(printf '%s\n' "$without") <(crates "index $feature"))
}

without=$(crates index)
brings postgres byteorder chacha20 cmov ctutils hmac md-5 phf phf_shared postgres-protocol postgres-types siphasher \
  stringprep tokio-postgres unicode-bidi unicode-properties whoami
brings nats async-nats chacha20 pin-project pin-project-internal portable-atomic regex serde_repr
