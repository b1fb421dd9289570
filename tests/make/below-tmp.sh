#!/usr/bin/env bash
# The tests from a checkout below the temporary folder, whose name has a blank and a letter beyond ASCII: what a sandboxed
# program may write to includes that folder.
. tests/make/common.sh

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone --quiet . "$folder/a ü"
cd "$folder/a ü"
# shellcheck disable=SC2086
CARGO_TARGET_DIR="$folder/a ü/target" cargo nextest run --locked $INNER --no-fail-fast
