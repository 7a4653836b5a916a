# shellcheck shell=bash
# Variables and functions of the scripts in this folder.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) # the checkout
python=${PYTHON:-python3}
jobs=${JOBS:-$(nproc)}
pids=() # tests that run in the background
export PIP_DISABLE_PIP_VERSION_CHECK=1

# End the tests of an interrupted run, and remove a temporary folder.
cleanup() {
    [ -z "${pids[*]-}" ] || kill "${pids[@]}" 2>/dev/null || true
    [ -z "${temporary-}" ] || rm -rf "$temporary"
}
trap cleanup EXIT

# usage: print the first comment of the script, and exit.
usage() {
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

# use_work [DIR]: set `work` to a folder that the script keeps, or to a temporary folder.
use_work() {
    if [ $# -gt 0 ]; then
        mkdir -p "$1"
        work=$(cd "$1" && pwd)
    else
        work=$(mktemp -d)
        temporary=$work
    fi
}

# step TITLE: print the name of the script, the title of a step, and the seconds since the start.
step() { printf '\n== %s: %s (%d s)\n' "$(basename "$0" .sh)" "$1" "$SECONDS"; }

# requirements build: print the requirements of the build.
# requirements test: print the requirements of the package and of its tests.
requirements() {
    "$python" - "$top/pyproject.toml" "$1" <<'EOF'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)
if sys.argv[2] == "build":
    names = project["build-system"]["requires"]
else:
    package = project["project"]
    names = package["dependencies"] + package["optional-dependencies"]["test"]
print("\n".join(names))
EOF
}

# host_tools PACKAGE...: install Debian packages.
host_tools() {
    dpkg-query -W "$@" >/dev/null 2>&1 && return
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get -qq update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

# copy_tests DIR: copy the tests and the files that they read, and change to DIR.
copy_tests() {
    rm -rf "$1"
    mkdir "$1"
    cp -R "$top/tests" "$top/docs" "$top/pyproject.toml" "$top/README.md" "$1"
    cd "$1" || return
    mkdir -p csrc/blocks
    cp "$top/csrc/blocks/grids.c" csrc/blocks
}

# Tests that do not depend on the CPU: oracles, programs, pages, memory and processes.
same_everywhere=("test_cli_*"
    test_{benchmarks,blocks_encoders,cf,dask,deviations,docs,embedding,exports,hardening,leaks}.py
    test_{main,memory,old_names,oracle,packaging,processes,prose,typing,without_ml_dtypes,zarr}.py)

# run_pytest PYTHON [ARGUMENT...]: run the tests in `jobs` processes. Each process collects all
# tests and runs its part, which starts in half the time of pytest-xdist. SHARE=N runs one test in
# N. A hash of the name selects a test, so that each parameter occurs in some test.
run_pytest() {
    local python=$1 failed=0 empty=0 code i
    shift
    set -- "$@" "${same_everywhere[@]/#/--ignore-glob=tests/}"
    "$python" -m pyquant info && "$python" -m pyquant demo || failed=1
    cat >shard.py <<'EOF'
import os
from zlib import crc32


def pytest_collection_modifyitems(items):
    index, count = map(int, os.environ["SHARD"].split("/"))
    share = int(os.environ.get("SHARE", "1"))
    drawn = [item for item in items if crc32(item.nodeid.encode()) % share == 0]
    items[:] = drawn[index::count]
EOF
    for ((i = 0; i < jobs; i++)); do
        SHARD=$i/$jobs PYQUANT_EMULATED=1 \
            "$python" -m pytest -o addopts=-ra -p no:cacheprovider -p shard --basetemp="$work/tmp-$i" "$@" \
            >"$work/pytest-$i.log" 2>&1 </dev/null &
        pids+=($!)
    done
    for i in "${!pids[@]}"; do
        code=0
        wait "${pids[i]}" || code=$?
        cat "$work/pytest-$i.log"
        case $code in
            0) ;;
            5) empty=$((empty + 1)) ;;  # pytest found no test for this process
            *) failed=1 ;;
        esac
    done
    pids=()
    [ "$empty" -lt "$jobs" ] && return "$failed"
}
