#!/usr/bin/env bash
# Check the files of a release: the sdist, a wheel built from the sdist offline, the workflows,
# and the C sources with the compilers for Windows.
#
#   .ci/wheel.sh [WORKDIR]
#
# The script keeps WORKDIR, so that a second run is faster; by default all files are temporary.
# PYTHON is the Python to build for, JOBS the number of compilers.
set -euo pipefail

# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_work "$@"
venv=$work/venv             # the tools and the requirements of the build
src=$work/src               # the tracked files, because the sdist would contain untracked files
sdist=$work/sdist           # the sdist, unpacked
dist=$work/dist             # the sdist and the wheel

die() { echo "wheel: $*" >&2; exit 1; }

step "tools"
host_tools binutils clang gcc gcc-mingw-w64-x86-64-posix
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
export PATH=$venv/bin:$PATH
cd "$top"
python -m pip install -q --upgrade "pip>=25.1"
requirements build >"$work/build.txt"
python -m pip install -q --group release --group workflows -r "$work/build.txt"

step "sdist"
rm -rf "$src" "$sdist" "$dist" "$work/repaired" "$work/installed"
mkdir -p "$src" "$sdist" "$dist" "$work/installed"
git ls-files -z | xargs -0 cp --parents -t "$src"
python -m build --no-isolation --sdist --outdir "$dist" "$src" >"$work/sdist.log" 2>&1 ||
    { cat "$work/sdist.log" >&2; exit 1; }
tar -C "$sdist" --strip-components=1 -xf "$dist"/pyquant_simd-*.tar.gz

step "wheel from the sdist, offline"
# Remove the network if this user may create namespaces, as root may.
offline=(env PIP_NO_INDEX=1)
unshare -n true 2>/dev/null && offline+=(unshare -n)
env -u CFLAGS "${offline[@]}" python -m build --no-isolation --wheel --outdir "$dist" "$sdist" \
    >"$work/wheel.log" 2>&1 || { cat "$work/wheel.log" >&2; exit 1; }

step "contents"
python .ci/dists.py "$dist"
twine check --strict "$dist"/*

step "libraries and symbols of the module"
wheel=$(echo "$dist"/pyquant_simd-*.whl)
python -m zipfile -e "$wheel" "$work/installed"
module=$(echo "$work"/installed/pyquant/_core.*.so)
needed=$(readelf -d "$module" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | xargs)
[ "$needed" = "libc.so.6 libm.so.6" ] || die "needs $needed, expected only libc and libm"
exported=$(nm -D --defined-only "$module" | awk '{print $NF}' | xargs)
[ "$exported" = PyInit__core ] || die "exports $exported, expected only PyInit__core"
echo "needs $needed, exports $exported"
auditwheel show "$wheel"
auditwheel repair --wheel-dir "$work/repaired" "$wheel" 2>"$work/repair.log" ||
    { cat "$work/repair.log" >&2; exit 1; }
repaired=$(basename "$work"/repaired/*.whl)
case $repaired in
    *manylinux*) echo "$repaired" ;;
    *) die "auditwheel made $repaired, expected a manylinux wheel" ;;
esac
python .ci/dists.py "$work/repaired" # auditwheel bundled no library

step "pages of the sdist"
# The sdist has no benchmarks and no .ci, so that tests of the checkout must not need them.
python -m pip install -q --force-reinstall --no-deps "$wheel"
python -m pip install -q "pyquant-simd[test]"
(cd "$sdist" && python -P -m pytest -q -n0 tests/test_docs.py tests/test_packaging.py)

step "wheels that cibuildwheel would build"
# Seven interpreters, for two architectures; on Linux also for two C libraries.
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
# MinGW and MSVC have equal type sizes and system headers. tests/c/Makefile enables these warnings
# for gcc and clang. .ci/cross.sh also runs the C tests for Windows. hardening.yml sets MINGW=-c
# to generate code, which takes a minute.
rm -rf "$work/mingw"
mkdir "$work/mingw"
cd "$work/mingw"
printf '%s\n' "$top"/csrc/*.c "$top"/csrc/*/*.c | xargs -P "$jobs" -n 1 \
    x86_64-w64-mingw32-gcc -std=c11 -O2 -ffp-contract=off -I"$top/csrc" \
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Werror \
    "${MINGW:--fsyntax-only}"
cd "$top"

step "C as MSVC reads it"
# clang in MSVC's dialect, with the branches of the sources for MSVC. MSVC accepts any intrinsic in
# any function. It has no attributes, assembler or builtins of GCC, except offsetof.
levels=(-mavx2 -mfma -mf16c -mavx512{f,dq,bw,vl,vbmi,bf16} -mgfni)
dialect=(-fms-compatibility-version=19.40 -std=c11 -U__clang__ -ffreestanding -nostdlibinc
    -isystem .ci/msvc -Icsrc)
for target in x86_64 aarch64; do
    [ "$target" = x86_64 ] || levels=()
    for file in csrc/*.c csrc/*/*.c; do
        msvc=(clang "--target=$target-pc-windows-msvc" "${dialect[@]}" "${levels[@]}" "$file")
        "${msvc[@]}" -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror \
            -Wno-language-extension-token -Wno-unused-function
        case $file in */x86/* | */arm/*) continue ;; esac # clang's intrinsics use builtins
        ! "${msvc[@]}" -E | awk '/^# [0-9]/ { own = $3 ~ /csrc/ } own' |
            grep -nE "__(builtin_[^o]|attribute__|asm)" || die "$file: not for MSVC on $target"
    done
done
step "done"
