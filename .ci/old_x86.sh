#!/usr/bin/env bash
# The C tests and the Python suite on emulated x86-64 processors without AVX2.
#
#   .ci/old_x86.sh [WORKDIR] PYTHON
#
# PYTHON is that of a virtual environment with pyquant and its test requirements. WORKDIR is kept.
# JOBS is the number of pytest processes, PYTEST_ARGS more arguments.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${JOBS:-$(nproc)}
read -ra pytest_args <<<"${PYTEST_ARGS:-}"
unset PYQUANT_ISA PYQUANT_REQUIRE_ISA   # what the caller asks of its own processor

case $# in
    1) work=$(mktemp -d) && temporary=$work ;;
    2) mkdir -p "$1" && work=$(cd "$1" && pwd) && shift ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
# An interrupted run leaves no emulated tests behind.
pids=()
# shellcheck disable=SC2317 # the trap calls it
cleanup() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
    [ -z "${temporary-}" ] || rm -rf "$temporary"
}
trap cleanup EXIT

python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
venv=$work/venv             # the environment of PYTHON, behind an emulator
run=$work/run               # the tests, away from the sources

step() { printf '\n== old x86: %s (%d s)\n' "$1" "$SECONDS"; }

step "host tools"
tools=(make qemu-user-static)
if ! dpkg-query -W "${tools[@]}" >/dev/null 2>&1; then
    as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get -qq update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install -y --no-install-recommends "${tools[@]}" >/dev/null
fi

failed=0  # the Python suite runs in any case
step "C tests"
# Conroe is x86-64 and little more: no SSE4, no AVX.
make -C "$top/tests/c" -j "$jobs" \
    RUN="qemu-x86_64-static -cpu Conroe" BUILD="$work/c" check || failed=1

step "Python suite"
# A child of an emulated process runs on the real processor, unless it is started through the
# emulator again. So "python" is a script that does that, and -0 makes it sys.executable.
# Nehalem, since NumPy needs x86-64-v2.
rm -rf "$venv"
mkdir -p "$venv/bin"
prefix=$("$python" -c 'import sys; print(sys.prefix)')
cp "$prefix/pyvenv.cfg" "$venv"
ln -s "$prefix/lib" "$venv/lib"
cat >"$venv/bin/python" <<EOF
#!/bin/sh
exec qemu-x86_64-static -cpu Nehalem -0 "$venv/bin/python" "$(readlink -f "$python")" "\$@"
EOF
chmod +x "$venv/bin/python"

rm -rf "$run"
mkdir "$run"
cp -R "$top/tests" "$top/pyproject.toml" "$top/README.md" "$run"
cd "$run"
"$venv/bin/python" - <<'EOF'
import subprocess
import sys

import pyquant

assert pyquant.isa.active() == "scalar", pyquant.isa.active()
assert pyquant.isa.available() == ("scalar",), pyquant.isa.available()
child = "import pyquant; print(pyquant.isa.active())"
level = subprocess.check_output([sys.executable, "-c", child], text=True).strip()
assert level == "scalar", level
EOF

# Every process collects all tests and runs each jobs-th of them: half the start-up of pytest-xdist.
cat >shard.py <<'EOF'
import os


def pytest_collection_modifyitems(items):
    index, count = map(int, os.environ["SHARD"].split("/"))
    items[:] = items[index::count]
EOF
# Not the trained model: ONNX Runtime takes many minutes for it under emulation.
for ((i = 0; i < jobs; i++)); do
    SHARD=$i/$jobs PYQUANT_EMULATED=1 PYQUANT_TEST_LIGHT=1 \
        "$venv/bin/python" -m pytest -p no:cacheprovider -p shard --ignore=tests/test_model.py \
        --basetemp="$work/tmp-$i" "${pytest_args[@]}" \
        >"$work/pytest-$i.log" 2>&1 </dev/null &
    pids+=($!)
done
empty=0
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
[ "$empty" -lt "$jobs" ] || failed=1
pids=()
step "done"
exit "$failed"
