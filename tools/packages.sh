#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that the build needs and that are missing. Without root, or when that fails, it prints the
# one command to run and exits 1. `packages.sh lint`, `fuzz` and `aarch64` add what those verbs need.
set -eu

packages="ninja-build pkg-config libcmocka-dev libcjson-dev gperf g++ python3-venv mandoc"
case "${1:-}" in
lint) packages="$packages clang clang-format-14 libclang-rt-14-dev" ;;
fuzz) packages="$packages clang libclang-rt-14-dev" ;;
aarch64) packages="$packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user clang lld" ;;
esac

command -v dpkg-query >/dev/null 2>&1 || exit 0 # not Debian: CMake names what it does not find

missing=""
for package in $packages; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

give_up() {
    echo "c7x-compute needs packages that are not installed. Run this, then try again:" >&2
    echo "    $1apt-get update && $1apt-get install -y --no-install-recommends$missing" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || give_up "sudo "
echo "+ apt-get install -y --no-install-recommends$missing" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # a list of words
if ! { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    give_up ""
fi
