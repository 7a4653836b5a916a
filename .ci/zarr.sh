#!/usr/bin/env bash
# Run the tests with zarr, xarray, dask and scikit-learn. zarr needs Python 3.12.
#
#   .ci/zarr.sh [WORKDIR]
#   .ci/zarr.sh --find      print the Python to use, or fail
#
# PYTHON is the Python to use. By default, the script searches this machine, including pyenv. It
# keeps WORKDIR.
set -euo pipefail

# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# zarr supports these versions. Debian's Python may lack ensurepip.
fits() {
    "$1" -c 'import ensurepip, sys; sys.exit(not (3, 12) <= sys.version_info < (3, 15))' \
        >/dev/null 2>&1
}

find_python() {
    local one some=(python3.{12,13,14} python3
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-4].*/bin/python)
    [ -z "${PYTHON-}" ] || some=("$PYTHON")
    for one in "${some[@]}"; do
        fits "$one" && { command -v "$one"; return; }
    done
    return 1
}

if [ "${1-}" = --find ]; then
    find_python
    exit
fi
use_work "$@"
venv=$work/venv
run=$work/run               # the tests, in a folder without the sources

step "packages"
python=$(find_python) || { echo "zarr: no Python 3.12 to 3.14 here" >&2; exit 1; }
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install -q --upgrade "pip>=25.1"
cd "$top"
"$venv/bin/python" -m pip install -q --group arrays

step "pyquant"
# Build a copy, because the checkout may contain files for another Python.
rm -rf "$work/source"
mkdir "$work/source"
git ls-files -z | xargs -0 cp --parents -t "$work/source"
"$venv/bin/python" -m pip install -q "$work/source[test]"

step "tests"
copy_tests "$run"
"$venv/bin/python" -c "import zarr; print('zarr', zarr.__version__)"
"$venv/bin/python" -m pytest -n0 -q -p no:cacheprovider --basetemp="$work/tmp" \
    tests/test_{zarr,dask,docs}.py
step "done"
