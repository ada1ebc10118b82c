#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# qemu-aarch64.sh SYSROOT PROGRAM ARGUMENTS...: runs an AArch64 program as this user's process, on the processor of the
# AM67A unless QEMU_CPU names another; QEMU_PAGESIZE gives it larger pages.
sysroot=$1
shift
ulimit -c 0 # some tests crash on purpose, and qemu would write each core into the current folder
QEMU_CPU=${QEMU_CPU:-cortex-a53} exec qemu-aarch64 -L "$sysroot" "$@"
