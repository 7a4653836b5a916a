#!/usr/bin/env bash
# Run the Python tests on a build with AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   .ci/sanitize_python.sh [WORKDIR] PYTHON [PYTEST ARGUMENT...]
#
# PYTHON belongs to a virtual environment with the requirements of the build and of the tests. The
# script keeps WORKDIR, an absolute path. Without pytest arguments, it leaves out the tests that
# start interpreters or measure memory. PYTEST_ADDOPTS adds options to the default arguments.
#
# The script uses clang with its sanitizer runtime, which is two minutes faster than gcc. CC=gcc
# selects gcc. gcc and clang detect different faults, so hardening.yml uses both.
set -euo pipefail

# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
if [ $# -ge 2 ] && { [ -d "$1" ] || [ ! -e "$1" ]; }; then
    use_work "$1"
    shift
else
    use_work
fi
[ $# -ge 1 ] || usage
python=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift

# Build a copy, because the checkout may contain objects of a build without sanitizers.
rm -rf "$work/source" "$work/site"
mkdir "$work/source"
cd "$top"
cp -R pyquant csrc setup.py pyproject.toml README.md LICENSE NOTICE MANIFEST.in "$work/source"
rm -f "$work/source"/pyquant/_cython/*.c "$work/source"/pyquant/*.so
sed -i 's/"-O3"/"-O1"/' "$work/source/setup.py" # -O3 takes minutes with sanitizers
cc=${CC:-clang}
case $("$cc" --version) in
    *clang*)
        # Cython's code adds 0 to null pointers, which only clang reports.
        printf '[pointer-overflow]\nsrc:*_core.c\n' >"$work/ignorelist"
        compile="-fsanitize-ignorelist=$work/ignorelist"
        link=-shared-libasan
        preload=$("$cc" -print-file-name="libclang_rt.asan-$(uname -m).so")
        ;;
    *)
        compile="" link=""
        preload="$("$cc" -print-file-name=libasan.so) $("$cc" -print-file-name=libubsan.so)"
        ;;
esac
CC=$cc \
CFLAGS="-g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer $compile" \
LDFLAGS="-fsanitize=address,undefined $link" \
    "$python" -m pip install -q --no-build-isolation --no-deps --target "$work/site" \
    "$work/source"

# Hide these packages, so that pytest skips the tests that need them.
cat >"$work/site/sitecustomize.py" <<EOF
import sys

sys.modules.update(dict.fromkeys(("dask", "onnxruntime", "openvino", "torch")))
EOF

# Python is not instrumented, and it never frees some of its memory.
export PYTHONPATH=$work/site ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc
export LD_PRELOAD=$preload
cd "$top"
"$python" -P -c "import pyquant; assert pyquant.__file__.startswith('$work'), pyquant"
if [ $# = 0 ]; then
    set -- -q tests/test_quantize.py tests/test_calls.py tests/test_layout.py \
        tests/test_packed.py tests/test_packed_calls.py \
        tests/test_errors.py tests/test_granularity.py \
        tests/test_threads.py tests/test_qparams.py tests/test_standards.py \
        tests/test_conformance.py tests/test_properties.py tests/test_hostile.py \
        tests/test_affine.py tests/test_usual.py \
        tests/test_fused.py tests/test_requantize.py tests/test_observe.py \
        tests/test_stochastic.py tests/test_search.py tests/test_report.py tests/test_like.py \
        tests/test_openvino.py tests/test_int64.py \
        tests/test_ranges.py \
        tests/test_blocks.py tests/test_blocks_encode.py tests/test_codebook.py \
        tests/test_compressed_tensors.py \
        tests/test_mx.py::test_names_and_types_of_files tests/test_nvfp4.py::test_worked_blocks \
        tests/test_bitsandbytes.py::test_the_oracle \
        tests/test_gptq.py::test_{dequantize,convert}
fi
"$python" -P -m pytest -n0 -s -p no:cacheprovider "$@"
