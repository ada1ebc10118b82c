#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes DIR/sysroot: the arm64 libraries of this Debian that the AArch64 programs are linked with and that qemu runs them
# with. apt works on lists of its own in DIR, so the system learns no second architecture and nothing needs root.
# Does nothing when it is newer than this script.
set -eu

[ $# -eq 1 ] || { echo "usage: tools/sysroot.sh DIR" >&2; exit 2; }
sysroot=$1/sysroot
stamp=$sysroot/.stamp
[ "$stamp" -nt "$0" ] && exit 0

rm -rf "$sysroot" "$1/apt"
mkdir -p "$sysroot" "$1/apt/lists/partial" "$1/apt/archives/partial"
cd "$1/apt"
echo "+ apt-get download arm64 libraries into $sysroot" >&2
for command in update "download libc6 libgcc-s1 libcjson1 libcjson-dev libcmocka0 libcmocka-dev"; do
    # shellcheck disable=SC2086 # a list of words
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User= \
        -o Dir::State::lists="$PWD/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$PWD" $command
done
for package in *.deb; do
    dpkg-deb --extract "$package" ../sysroot
done
cd ..
rm -rf apt
touch sysroot/.stamp
