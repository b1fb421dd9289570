#!/usr/bin/env bash
# Builds the packages in two folders, and compares the bytes. STATIC=only (the default) compares the static program alone.
. tests/make/common.sh

STATIC=${STATIC-only}
work=$(mktemp -d "$CARGO_TARGET_DIR/twice.XXXXXX"); trap 'rm -rf "$work"' EXIT
for folder in first the-second; do
  mkdir "$work/$folder"
  git archive HEAD | tar -x -C "$work/$folder"
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) STATIC=$STATIC CARGO_TARGET_DIR=$work/$folder/target \
    make -C "$work/$folder" dist
  # What was built is needed no longer; it may be gigabytes.
  rm -rf "$work/$folder/target/dist-build"
done
diff "$work/first/target/dist/SHA256SUMS" "$work/the-second/target/dist/SHA256SUMS" || die 'the two builds differ'
say '== the same bytes'
