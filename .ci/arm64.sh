#!/usr/bin/env bash
# Run the C tests and the Python tests on emulated arm64. For Debian 12 on x86-64.
#
#   .ci/arm64.sh [WORKDIR]
#
# The script keeps WORKDIR and its downloads; by default all files are temporary. PYTHON is the
# host's Python 3.11. JOBS is the number of pytest processes. PYTEST_ARGS are more arguments.
# SHARE=N runs one Python test in N.
set -euo pipefail

# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
read -ra pytest_args <<<"${PYTEST_ARGS:-}"
unset PYQUANT_ISA PYQUANT_REQUIRE_ISA   # they are for the CPU of the caller

use_work "$@"
root=$work/root             # the files of Debian's arm64 packages
venv=$work/venv             # an arm64 virtual environment over it
build=$work/build-venv      # the host's build tools
run=$work/run               # the tests, in a folder without the sources

# The host compiles bytecode and C for the Python of the arm64 root: the versions must agree.
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
    { echo "arm64: PYTHON must be Python 3.11" >&2; exit 2; }

step "host tools"
host_tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross make qemu-user-static

failed=0  # the Python tests run even if the C tests fail
step "C tests"
make -C "$top/tests/c" -j "$jobs" CC=aarch64-linux-gnu-gcc LDFLAGS=-static \
    RUN=qemu-aarch64-static BUILD="$work/c" check || failed=1

step "Python for arm64"
if [ ! -e "$root/complete" ]; then
    # This state of apt is not the state of the host, so that the host gets no foreign architecture.
    rm -rf "$root" "$work/apt"
    mkdir -p "$root" "$work"/apt/{debs,state/lists/partial,cache/archives/partial}
    : >"$work/apt/status"
    cat >"$work/apt/apt.conf" <<EOF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
Dir::State "$work/apt/state";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt/cache";
EOF
    (
        cd "$work/apt/debs"
        export APT_CONFIG=$work/apt/apt.conf
        apt-get -qq update
        apt-get -qq download python3.11-minimal \
            libpython3.11-minimal libpython3.11-stdlib libpython3.11-dev \
            libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libbz2-1.0 liblzma5 libffi8 libssl3 \
            libuuid1 libsqlite3-0 libcrypt1
    )
    for deb in "$work"/apt/debs/*.deb; do
        dpkg -x "$deb" "$root"
    done
    rm -rf "$work/apt"
    # Under emulation, the first import of each module would take seconds.
    "$python" -m compileall -q "$root/usr/lib/python3.11"
    touch "$root/complete"
fi

# The kernel cannot start an arm64 program, so `python` is a script that starts the emulator. With
# -0, the script is sys.executable, so that tests that start sys.executable are emulated, too.
site=$venv/lib/python3.11/site-packages
mkdir -p "$venv/bin" "$site"
echo "home = $root/usr/bin" >"$venv/pyvenv.cfg"
cat >"$venv/bin/python" <<EOF
#!/bin/sh
exec qemu-aarch64-static -L "$root" -0 "$venv/bin/python" "$root/usr/bin/python3.11" "\$@"
EOF
chmod +x "$venv/bin/python"

step "packages"
requirements build >"$work/build.txt"
requirements test >"$work/test.txt"
[ -x "$build/bin/python" ] || "$python" -m venv "$build"
"$build/bin/pip" install -q -r "$work/build.txt"
if ! cmp -s "$work/test.txt" "$work/test-installed.txt"; then
    rm -rf "$site"
    "$build/bin/pip" install -q --target "$site" --only-binary :all: --python-version 3.11 \
        --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 \
        --platform manylinux2014_aarch64 -r "$work/test.txt"
    cp "$work/test.txt" "$work/test-installed.txt"
fi

step "wheel"
# setuptools reads the compiler, its flags and the suffix from the sysconfig data of the root.
# CPPFLAGS has the include folders, because CFLAGS would replace the flags of the interpreter.
rm -rf "$work/src" "$work/sysconfig" "$work/wheel"
mkdir -p "$work/src" "$work/sysconfig" "$work/wheel"
tar -C "$top" --exclude-vcs --exclude='*.so' --exclude=__pycache__ -cf - \
    pyproject.toml setup.py MANIFEST.in README.md LICENSE NOTICE csrc pyquant | tar -C "$work/src" -xf -
rm -f "$work"/src/pyquant/_cython/*.c
cp "$root/usr/lib/python3.11/_sysconfigdata__aarch64-linux-gnu.py" "$work/sysconfig"
(
    cd "$work/src"
    export _PYTHON_HOST_PLATFORM=linux-aarch64
    export _PYTHON_SYSCONFIGDATA_NAME=_sysconfigdata__aarch64-linux-gnu
    export PYTHONPATH=$work/sysconfig
    export CPPFLAGS="-I$root/usr/include/python3.11 -I$root/usr/include"
    unset CFLAGS LDFLAGS
    "$build/bin/python" -c \
        'import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])' \
        "$work/wheel" >"$work/wheel.log" 2>&1 || { cat "$work/wheel.log" >&2; exit 1; }
)
rm -rf "$site"/pyquant "$site"/pyquant_simd-*
"$build/bin/python" -m zipfile -e "$work"/wheel/pyquant_simd-*.whl "$site"

step "Python suite"
copy_tests "$run"
"$venv/bin/python" -c 'import pyquant; assert pyquant.isa.active() == "neon", pyquant.isa.active()'

export PYQUANT_REQUIRE_ISA=neon
run_pytest "$venv/bin/python" "${pytest_args[@]}" || failed=1
step "done"
exit "$failed"
