#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Format, who includes whom, and a build of everything without a warning by gcc and by clang.
set -eu
cd "$(dirname "$0")/.."

echo "+ clang-format-14 --dry-run"
git ls-files '*.c' '*.h' | xargs clang-format-14 --dry-run --Werror
echo "+ check_layers"
python3 tools/check_layers.py

# build FOLDER COMPILER [CMAKE OPTION...]
build() {
    folder=$1 compiler=$2
    shift 2
    echo "+ $compiler -Werror${*:+ $*}"
    cmake -S . -B "$folder" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DC7X_WERROR=ON "$@" >/dev/null
    ninja -C "$folder" --quiet
}
build build-gcc gcc
build build-clang clang
# What a distribution builds: more is inlined, and the compiler sees other paths.
build build-gcc-release gcc -DCMAKE_BUILD_TYPE=Release -DC7X_TESTS=OFF
build build-clang-release clang -DCMAKE_BUILD_TYPE=Release -DC7X_TESTS=OFF
