#!/bin/sh
# Stands in for a C compiler of another system: makes empty files. `cargo check` asks for the C code of dependencies,
# but reads nothing of it.
for argument; do
  [ "$was" != -o ] || : >"$argument"
  case $argument in *.a) : >"$argument" ;; esac
  was=$argument
done
