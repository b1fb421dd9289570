#!/usr/bin/env bash
# Runs the tests of the clients in other languages, each where its language is installed, with the debug build.
. tests/make/common.sh

packages pip clojure
step 'build' cargo build --locked $INNER
client_tests
