#!/usr/bin/env bash
# Run the Python tests on an emulated x86-64 CPU without AVX2. The C tests have a command:
#
#   make -C tests/c check RUN="qemu-x86_64-static -cpu Conroe"
#
#   .ci/old_x86.sh [WORKDIR] PYTHON
#
# PYTHON belongs to a virtual environment with pyquant and its test requirements. The script keeps
# WORKDIR. JOBS is the number of pytest processes. PYTEST_ARGS are more arguments. SHARE=N runs
# one test in N.
set -euo pipefail

# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
read -ra pytest_args <<<"${PYTEST_ARGS:-}"
unset PYQUANT_ISA PYQUANT_REQUIRE_ISA   # they are for the CPU of the caller

case $# in
    1) use_work ;;
    2) use_work "$1" && shift ;;
    *) usage ;;
esac

python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
venv=$work/venv             # the environment of PYTHON, with an emulated interpreter
run=$work/run               # the tests, in a folder without the sources

step "host tools"
host_tools qemu-user-static

step "Python suite"
# A child process would run on the real CPU. So `python` is a script that starts the emulator, and
# -0 makes the script sys.executable. NumPy needs x86-64-v2, which Nehalem has.
rm -rf "$venv"
mkdir -p "$venv/bin"
prefix=$("$python" -c 'import sys; print(sys.prefix)')
cp "$prefix/pyvenv.cfg" "$venv"
ln -s "$prefix/lib" "$venv/lib"
cat >"$venv/bin/python" <<EOF
#!/bin/sh
# By default, OpenBLAS selects kernels that this CPU lacks.
export OPENBLAS_CORETYPE=Nehalem
exec qemu-x86_64-static -cpu Nehalem -0 "$venv/bin/python" "$(readlink -f "$python")" "\$@"
EOF
chmod +x "$venv/bin/python"

copy_tests "$run"
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

# ONNX Runtime takes many minutes to run the trained model under emulation.
run_pytest "$venv/bin/python" --ignore=tests/test_model.py "${pytest_args[@]}"
step "done"
