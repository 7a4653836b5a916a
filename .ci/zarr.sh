#!/usr/bin/env bash
# The tests beside zarr, which needs Python 3.12, and beside xarray, dask and scikit-learn there.
#
#   .ci/zarr.sh [WORKDIR]
#   .ci/zarr.sh --find      prints the Python that it would take, or fails
#
# PYTHON is the Python to take; by default one of this machine, pyenv's among them. WORKDIR is
# kept.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# With what makes environments; zarr has no older one, and may not know the next.
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
elif [ $# -gt 0 ]; then
    mkdir -p "$1"
    work=$(cd "$1" && pwd)
else
    work=$(mktemp -d)
    temporary=$work
fi
jobs=1
pids=()
# shellcheck source=.ci/emulation.sh
. "$top/.ci/emulation.sh"
venv=$work/venv
run=$work/run               # the tests, away from the sources

step() { printf '\n== zarr: %s (%d s)\n' "$1" "$SECONDS"; }

step "packages"
python=$(find_python) || { echo "zarr: no Python 3.12 to 3.14 here" >&2; exit 1; }
export PIP_DISABLE_PIP_VERSION_CHECK=1
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install -q --upgrade "pip>=25.1"
cd "$top"
"$venv/bin/python" -m pip install -q --group arrays

step "pyquant"
# From a copy: what was compiled for another Python would be in the way.
rm -rf "$work/source"
mkdir "$work/source"
git ls-files -z | xargs -0 cp --parents -t "$work/source"
"$venv/bin/python" -m pip install -q "$work/source[test]"

step "tests"
copy_tests "$run"
"$venv/bin/python" -c "import zarr; print('zarr', zarr.__version__)"
"$venv/bin/python" -m pytest -n0 -q -p no:cacheprovider --basetemp="$work/tmp" \
    tests/test_{zarr,cf,dask,docs,packaging}.py
step "done"
