#!/usr/bin/env bash
# Builds each set of features without warnings, and the program with the oldest version of each dependency that
# Cargo.toml permits. WITHOUT_MODEL leaves out the sets with the embedded model.
. tests/make/common.sh

for set in '' index 'index otel' 'index postgres' 'index nats' embedded-model 'index embedded-model'; do
  case $set in *embedded-model*) has_model_tools || { say "-- LEFT OUT: [$set], without the tools of the embedded model"; continue; } ;; esac
  [ -z "${WITHOUT_MODEL:-}" ] || case $set in *embedded-model*) say "-- left out: [$set]"; continue ;; esac
  step "features [$set]" cargo clippy --locked --all-targets --no-default-features --features "$set" -- -D warnings
done
# In a copy: the lock file of the project stays as it is. The variable lets the stable toolchain resolve so.
copy=$(mktemp -d); trap 'rm -rf "$copy"' EXIT
cp -R Cargo.toml src benches examples "$copy"
step 'oldest versions: resolve' env RUSTC_BOOTSTRAP=1 \
  cargo update --manifest-path "$copy/Cargo.toml" -Z direct-minimal-versions
step 'oldest versions: check' cargo check --locked --manifest-path "$copy/Cargo.toml" $INNER
