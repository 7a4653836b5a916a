# shellcheck shell=bash
# What the scripts of this folder share. Sourced; `top`, `work` and `jobs` are set,
# `pids` is empty, and `temporary` names a folder to remove at the end, if any.

# An interrupted run leaves no emulated tests behind.
cleanup() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
    [ -z "${temporary-}" ] || rm -rf "$temporary"
}
trap cleanup EXIT

# host_tools PACKAGE...: Debian packages that must be there.
host_tools() {
    dpkg-query -W "$@" >/dev/null 2>&1 && return
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get -qq update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

# copy_tests DIR: the tests and what they read, away from the sources; then go there.
copy_tests() {
    rm -rf "$1"
    mkdir "$1"
    cp -R "$top/tests" "$top/docs" "$top/pyproject.toml" "$top/README.md" "$1"
    cd "$1" || return
    mkdir -p csrc/blocks
    cp "$top/csrc/blocks/grids.c" csrc/blocks
}

# What no processor changes and takes long: tests that start many interpreters, and those of
# the oracle itself. The two commands of test_main.py are run once instead.
same_everywhere=(blocks_encoders blocks_oracle main oracle without_ml_dtypes)

# run_pytest PYTHON [ARGUMENT...]: the suite in `jobs` processes. Every process collects all
# tests and runs each jobs-th of them: half the start-up of pytest-xdist. With SHARE=N it is
# one test in N, drawn by their names, so that none of their parameters is always left out.
run_pytest() {
    local python=$1 failed=0 empty=0 code i
    shift
    for i in "${same_everywhere[@]}"; do
        set -- "$@" "--ignore=tests/test_$i.py"
    done
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
            5) empty=$((empty + 1)) ;;  # a narrow choice of tests may leave a process none
            *) failed=1 ;;
        esac
    done
    pids=()
    [ "$empty" -lt "$jobs" ] && return "$failed"
}
