#!/usr/bin/env bash
# What a release is made of: the sdist, a wheel built from it without a network, the workflows.
#
#   .ci/wheel.sh [WORKDIR]
#
# WORKDIR is kept, and a second run is faster with the same one; without one, everything is
# temporary. PYTHON is the Python to build for, JOBS the number of compilers.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
jobs=${JOBS:-$(nproc)}

if [ $# -gt 0 ]; then
    mkdir -p "$1"
    work=$(cd "$1" && pwd)
else
    work=$(mktemp -d)
    temporary=$work
fi
pids=()
# shellcheck source=.ci/emulation.sh
. "$top/.ci/emulation.sh"
venv=$work/venv             # the tools, and what the build needs
src=$work/src               # what git tracks: a checkout may hold more, which would get in
sdist=$work/sdist           # the sdist, unpacked
dist=$work/dist             # the sdist and the wheel

step() { printf '\n== wheel: %s (%d s)\n' "$1" "$SECONDS"; }
die() { echo "wheel: $*" >&2; exit 1; }

step "tools"
host_tools binutils clang gcc gcc-mingw-w64-x86-64-posix
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
export PATH=$venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1
cd "$top"
python -m pip install -q --upgrade "pip>=25.1"
python - >"$work/build.txt" <<'END'
import tomllib

with open("pyproject.toml", "rb") as file:
    print("\n".join(tomllib.load(file)["build-system"]["requires"]))
END
python -m pip install -q --group release --group workflows -r "$work/build.txt"

step "sdist"
rm -rf "$src" "$sdist" "$dist" "$work/repaired" "$work/installed"
mkdir -p "$src" "$sdist" "$dist" "$work/installed"
git ls-files -z | xargs -0 cp --parents -t "$src"
python -m build --no-isolation --sdist --outdir "$dist" "$src" >"$work/sdist.log" 2>&1 ||
    { cat "$work/sdist.log" >&2; exit 1; }
tar -C "$sdist" --strip-components=1 -xf "$dist"/pyquant_simd-*.tar.gz

step "wheel from the sdist, offline"
# Without a network at all where namespaces are allowed, as they are for root.
offline=(env PIP_NO_INDEX=1)
unshare -n true 2>/dev/null && offline+=(unshare -n)
env -u CFLAGS "${offline[@]}" python -m build --no-isolation --wheel --outdir "$dist" "$sdist" \
    >"$work/wheel.log" 2>&1 || { cat "$work/wheel.log" >&2; exit 1; }

step "contents"
python .ci/dists.py "$dist"
twine check --strict "$dist"/*

step "what the module needs and exports"
wheel=$(echo "$dist"/pyquant_simd-*.whl)
python -m zipfile -e "$wheel" "$work/installed"
module=$(echo "$work"/installed/pyquant/_core.*.so)
needed=$(readelf -d "$module" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | xargs)
[ "$needed" = "libc.so.6 libm.so.6" ] || die "needs $needed, not only libc and libm"
exported=$(nm -D --defined-only "$module" | awk '{print $NF}' | xargs)
[ "$exported" = PyInit__core ] || die "exports $exported, not only PyInit__core"
echo "needs $needed, exports $exported"
auditwheel show "$wheel"
auditwheel repair --wheel-dir "$work/repaired" "$wheel" 2>"$work/repair.log" ||
    { cat "$work/repair.log" >&2; exit 1; }
repaired=$(basename "$work"/repaired/*.whl)
case $repaired in
    *manylinux*) echo "$repaired" ;;
    *) die "auditwheel makes $repaired of it, which is no manylinux wheel" ;;
esac
python .ci/dists.py "$work/repaired" # so nothing was bundled

step "what cibuildwheel would build"
# Seven interpreters: on Linux for two C libraries and two architectures, elsewhere two.
for expected in linux:28 macos:14 windows:14; do
    platform=${expected%:*}
    count=$(cibuildwheel --print-build-identifiers --platform "$platform" . | wc -l)
    echo "$platform: $count"
    [ "$platform:$count" = "$expected" ] || die "expected $expected"
done

step "workflows"
check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
check-jsonschema --builtin-schema vendor.readthedocs .readthedocs.yaml
zizmor --offline --quiet --pedantic .github
if command -v actionlint >/dev/null; then
    actionlint
else
    echo "no actionlint here; ci.yml has it"
fi

step "C for Windows"
# MinGW shares with MSVC the sizes of the types and the system headers. tests/c/Makefile has
# the same warnings for gcc and clang.
rm -rf "$work/mingw"
mkdir "$work/mingw"
cd "$work/mingw"
printf '%s\n' "$top"/csrc/*.c "$top"/csrc/*/*.c | xargs -P "$jobs" -n 1 \
    x86_64-w64-mingw32-gcc -std=c11 -O2 -ffp-contract=off -I"$top/csrc" \
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Werror -c
echo "$(find . -name '*.o' | wc -l) object files"

step "C as MSVC reads it"
# clang in MSVC's dialect, which is made to take the branches for MSVC itself. That takes any
# intrinsic anywhere, and has no attributes (to say what may be unused, either), assembler or
# builtins (but offsetof) of GCC.
cd "$top"
levels=(-mavx2 -mfma -mf16c -mavx512{f,dq,bw,vl,vbmi,bf16} -mgfni)
dialect=(-fms-compatibility-version=19.40 -std=c11 -U__clang__ -ffreestanding -nostdlibinc
    -isystem .ci/msvc -Icsrc)
for target in x86_64 aarch64; do
    [ "$target" = x86_64 ] || levels=()
    for file in csrc/*.c csrc/*/*.c; do
        msvc=(clang "--target=$target-pc-windows-msvc" "${dialect[@]}" "${levels[@]}" "$file")
        "${msvc[@]}" -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror \
            -Wno-language-extension-token -Wno-unused-function
        case $file in */x86/* | */arm/*) continue ;; esac # intrinsics may be builtins
        ! "${msvc[@]}" -E | awk '/^# [0-9]/ { own = $3 ~ /csrc/ } own' |
            grep -nE "__(builtin_[^o]|attribute__|asm)" || die "$file: not for MSVC on $target"
    done
done
step "done"
