#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Format, who includes whom, and a build of everything without a warning by gcc and by clang.
set -eu
cd "$(dirname "$0")/.."

echo "+ clang-format-14 --dry-run"
git ls-files '*.c' '*.h' | xargs clang-format-14 --dry-run --Werror
echo "+ check_layers"
python3 tools/check_layers.py
for compiler in gcc clang; do
    echo "+ $compiler -Werror"
    cmake -S . -B "build-$compiler" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DC7X_WERROR=ON >/dev/null
    ninja -C "build-$compiler" --quiet
done
