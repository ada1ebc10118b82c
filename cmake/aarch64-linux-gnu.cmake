# SPDX-License-Identifier: Apache-2.0
# Cross-compiles for AArch64 Linux with Debian's compiler and the libraries of sysroot/ in the build folder
# (tools/sysroot.sh), and runs the result under qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

set(sysroot ${CMAKE_BINARY_DIR}/sysroot)
set(CMAKE_C_FLAGS_INIT "-isystem ${sysroot}/usr/include")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L${sysroot}/usr/lib/aarch64-linux-gnu")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-L${sysroot}/usr/lib/aarch64-linux-gnu")
set(CMAKE_FIND_ROOT_PATH ${sysroot})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/../tools/qemu-aarch64.sh ${sysroot})
