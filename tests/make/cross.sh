#!/usr/bin/env bash
# Checks that the program compiles for macOS, and the packages for Windows.
. tests/make/common.sh

cross_checks aarch64-apple-darwin x86_64-apple-darwin x86_64-pc-windows-gnu
