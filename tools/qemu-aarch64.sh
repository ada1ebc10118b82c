#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# qemu-aarch64.sh SYSROOT PROGRAM ARGUMENTS...: runs an AArch64 program as this user's process, on the processor of the
# AM67A unless QEMU_CPU names another; QEMU_PAGESIZE gives it larger pages.
sysroot=$1
shift
QEMU_CPU=${QEMU_CPU:-cortex-a53} exec qemu-aarch64 -L "$sysroot" "$@"
