#!/usr/bin/env bash
# Run the C tests on emulators of more architectures and systems. zig compiles them. For Debian
# and Ubuntu on x86-64.
#
#   .ci/cross.sh [WORKDIR] TARGET...
#
# TARGET is "all" or a name of the table `targets`. The script keeps WORKDIR, and a second run
# compiles changed files only. PYTHON makes an environment for zig. JOBS is the number of processes.
set -euo pipefail

# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The emulator, its Debian package, and the name of the target for zig.
declare -A targets=(
    [aarch64]="qemu-aarch64-static qemu-user-static aarch64-linux-musl"
    [armv7]="qemu-arm-static qemu-user-static arm-linux-musleabihf -mcpu=generic+v7a-neon"
    [i386]="qemu-i386-static qemu-user-static x86-linux-musl" # this target has SSE2
    [ppc64le]="qemu-ppc64le-static qemu-user-static powerpc64le-linux-musl"
    [riscv64]="qemu-riscv64-static qemu-user-static riscv64-linux-musl"
    [s390x]="qemu-s390x-static qemu-user-static s390x-linux-musl" # big-endian
    [wasm32]="wasmtime make wasm32-wasi -Wno-deprecated" # clang calls this name deprecated
    [windows]="wine wine64 x86_64-windows-gnu"
)

if [ $# -gt 0 ] && [ "$1" != all ] && [ -z "${targets[$1]-}" ]; then
    use_work "$1"
    shift
else
    use_work
fi
[ $# -gt 0 ] || usage
[ "$1" != all ] || set -- "${!targets[@]}"
for target; do
    [ -n "${targets[$target]-}" ] || { echo "cross: no target $target" >&2; exit 2; }
done

step "tools"
host_tools make
[ -x "$work/venv/bin/python" ] || "$python" -m venv "$work/venv"
"$work/venv/bin/pip" install -q "ziglang==0.17.1" "wasmtime==50.0.1"
export PATH=$work/bin:$PATH
mkdir -p "$work/bin"
cat >"$work/bin/zig" <<EOF
#!/bin/sh
exec "$work/venv/bin/python" -m ziglang "\$@"
EOF
cat >"$work/bin/wine" <<EOF
#!/bin/sh
WINEPREFIX="$work/wine" WINEDEBUG=-all exec /usr/lib/wine/wine64 "\$@"
EOF
# The package wasmtime has no command.
cat >"$work/bin/wasmtime" <<EOF
#!$work/venv/bin/python
import os
import sys

import wasmtime

config = wasmtime.WasiConfig()
config.argv = sys.argv[1:]
config.env = [pair for pair in os.environ.items() if pair[0].startswith("CHECK_")]
config.inherit_stdout()
config.inherit_stderr()
store = wasmtime.Store()
store.set_wasi(config)
linker = wasmtime.Linker(store.engine)
linker.define_wasi()
module = wasmtime.Module.from_file(store.engine, sys.argv[1])
start = linker.instantiate(store, module).exports(store)["_start"]
try:
    start(store)
except wasmtime.ExitTrap as end:
    sys.exit(end.code)
EOF
chmod +x "$work"/bin/*

failed=()
for target; do
    step "$target"
    read -r run package zig <<<"${targets[$target]}"
    host_tools "$package"
    make -C "$top/tests/c" -s -j "$jobs" check CC="zig cc -target $zig" RUN="$run" \
        BUILD="$work/$target" || failed+=("$target")
done
step "done"
[ ${#failed[@]} = 0 ] || { echo "cross: failed: ${failed[*]}" >&2; exit 1; }
