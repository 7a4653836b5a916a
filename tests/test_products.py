"""Compare `pyquant.integrations.products` with integer arithmetic."""

import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import pyquant as pq
from pyquant.integrations import products

NEEDS = {"onnxruntime": ["onnxruntime", "onnx"], "blas": []}
PACKAGES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            not all(map(find_spec, NEEDS.get(name, [name]))), reason=f"needs {name}"
        ),
    )
    for name in ("onnxruntime", "numkong", "torch", "blas")
]
TYPES = [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")]
CPU = Path("/proc/cpuinfo")
HAS_VNNI = CPU.exists() and bool(re.search("avx(512)?_vnni", CPU.read_text("utf-8")))
# Pairs of types that a package must multiply exactly on this CPU.
ALWAYS = {
    "onnxruntime": TYPES if HAS_VNNI else [],
    "numkong": [("int8", "int8"), ("uint8", "uint8")],
    "torch": [("int8", "int8")],
    "blas": TYPES,
}


def exact(a, b):
    """Return the product in integer arithmetic."""
    return a.astype(np.int64) @ b.astype(np.int64)


def adversarial(rng, shape, dtype, kind):
    """Return codes of a kind: one extreme of a type, both extremes, or any codes."""
    ends = np.iinfo(dtype)
    if kind in ("lowest", "highest"):
        return np.full(shape, ends.min if kind == "lowest" else ends.max, dtype)
    if kind == "both":
        return rng.choice(np.array([ends.min, ends.max], dtype), shape)
    return rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)


def skip_unless_exact(package, types):
    if not products._is_exact(package, *types):
        assert types not in ALWAYS[package]
        # Without a row in ALWAYS, exact products depend on the CPU and the package.
        pytest.skip(f"{package} does not multiply {types} exactly here")


@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize("package", PACKAGES)
def test_sums_equal_integer_arithmetic(package, types):
    skip_unless_exact(package, types)
    rng = np.random.default_rng(0)
    bound = products.longest(*types, package)
    kinds = ("lowest", "highest", "both", "all")
    shapes = [(1, 1, 1), (2, 1, 3), (3, 5, 2), (16, 64, 32), (7, 250, 33), (65, 130, 129)]
    for m, k, n in [*shapes, (1, bound, 3), (9, bound, 2)]:
        for kind, other in [(one, two) for one in kinds for two in kinds]:
            a = adversarial(rng, (m, k), types[0], kind)
            b = adversarial(rng, (k, n), types[1], other)
            b = products.Prepared(b, dtype=types[0], package=package), b
            sums = products.matmul(a, b[0])
            assert sums.dtype == np.int32
            np.testing.assert_array_equal(sums, exact(a, b[1]), f"{m, k, n, kind, other}")


@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize("package", PACKAGES)
def test_longer_sums_raise(package, types):
    bound = products.longest(*types, package)
    a, b = np.zeros((1, bound + 1), types[0]), np.zeros((bound + 1, 1), types[1])
    message = f"b: expected K of at most {bound} for {types[0]}, {types[1]} and {package}, "
    with pytest.raises(ValueError, match=f"^{message}got {bound + 1}$"):
        products.matmul(a, b, package=package)


@pytest.mark.parametrize(("a", "b"), [*TYPES, ("int4", "int4"), ("uint4", "int2")])
def test_bounds_are_tight(a, b):
    """Sums of `longest` extreme products fit the sum's type. One more product overflows."""
    ends = [[pq.dtypes.TYPES[t].lowest, pq.dtypes.TYPES[t].highest] for t in (a, b)]
    found = [x * y for x in ends[0] for y in ends[1]]
    integers = np.iinfo(np.int32)
    for package in ("onnxruntime", "numkong", "torch"):
        k = products.longest(a, b, package)
        assert all(integers.min <= k * x <= integers.max for x in found)
        assert max(abs(x) for x in found) * (k + 1) > integers.max
    k = products.longest(a, b, "blas")
    most = max(found, key=abs)
    sums = [np.float32(k * most), np.float32((k + 1) * most)]
    assert int(sums[0]) == k * most
    assert abs(int(sums[1])) > 2**24 - 1  # float32 skips odd numbers there
    assert products.longest("int8", "int8", "torch") == 131_071


@pytest.mark.parametrize("package", PACKAGES)
def test_forms_of_arrays(package):
    skip_unless_exact(package, ("int8", "int8"))
    rng = np.random.default_rng(1)
    a = rng.integers(-128, 128, (4, 6, 32), np.int8)
    weight = rng.integers(-128, 128, (48, 32), np.int8)  # each row is an output
    due = exact(a, weight.T)
    prepared = products.Prepared(weight.T, package=package)
    assert (prepared.shape, prepared.dtype, prepared.package) == ((32, 48), "int8", package)
    fixed = a.copy()
    fixed.flags.writeable = False
    for given in (a, fixed, np.asfortranarray(a), a[:, ::-1], a[..., ::2].repeat(2, -1)):
        for b in (weight.T, weight.T.copy(), prepared):
            sums = products.matmul(given, b, package=package)
            np.testing.assert_array_equal(sums, exact(given, weight.T))
    np.testing.assert_array_equal(products.matmul(a[0, 0], prepared), due[0, 0])
    weight[:] = 0  # Prepared keeps a copy
    np.testing.assert_array_equal(products.matmul(a, prepared), due)
    for m, k, n in [(0, 3, 2), (2, 0, 3), (2, 3, 0)]:
        b = products.Prepared(np.ones((k, n), np.int8), package=package)
        assert products.matmul(np.ones((m, k), np.int8), b).tolist() == [[0] * n] * m


def test_narrow_codes():
    ml_dtypes = pytest.importorskip("ml_dtypes")  # it defines the types
    rng = np.random.default_rng(2)
    a, b = rng.integers(-8, 8, (5, 3000)), rng.integers(0, 16, (3000, 4))
    sums = products.matmul(a.astype(ml_dtypes.int4), b.astype(ml_dtypes.uint4))
    np.testing.assert_array_equal(sums, a @ b)


@pytest.mark.parametrize("package", PACKAGES)
def test_layer_is_close_to_the_real_product(package):
    skip_unless_exact(package, ("int8", "int8"))
    rng = np.random.default_rng(3)
    x = rng.standard_normal((20, 300), np.float32)
    weight = rng.standard_normal((40, 300), np.float32)
    codes, w = pq.dynamic_quantize(weight, axis=0)
    prepared = products.Prepared(codes.T, package=package)
    q, p = pq.dynamic_quantize(x, axis=0)
    y = pq.dequantize(products.matmul(q, prepared), (p.scale, w.scale))
    scales = np.multiply.outer(p.scale, w.scale)
    np.testing.assert_array_equal(y, exact(q, codes.T).astype(np.float32) * scales)
    due = x.astype(np.float64) @ weight.T
    assert abs(y - due).max() < 0.01 * abs(due).max() + 0.5


@pytest.fixture
def only_blas(monkeypatch):
    monkeypatch.setattr(products, "_missing", lambda p: None if p == "blas" else p)


def test_choice_of_a_package(only_blas):
    a, b = np.ones((1, 1024), np.int8), np.ones((1024, 2), np.int8)
    assert products.Prepared(b).package == "blas"
    assert products.matmul(a, b).tolist() == [[1024, 1024]]
    message = (
        "package: expected an installed package for int8, int8 and K of 1025, got none; "
        "pip install numkong"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        products.Prepared(np.ones((1025, 2), np.int8))
    message = "package: torch needs torch: pip install torch"
    with pytest.raises(ImportError, match=f"^{message}$"):
        products.matmul(a, b, package="torch")


def test_saturating_packages_are_not_chosen(monkeypatch):
    """Detect sums of two products that saturate, like in ONNX Runtime without VNNI."""

    def saturating(b, a_type, threads):
        def product(a):
            pairs = a.astype(np.int64)[:, :, None] * b.astype(np.int64)
            pairs = np.pad(pairs, ((0, 0), (0, pairs.shape[1] % 2), (0, 0)))
            found = pairs.reshape(len(a), -1, 2, b.shape[1]).sum(axis=2)
            return np.clip(found, -(2**15), 2**15 - 1).sum(axis=1).astype(np.int32)

        return product

    packages = {"onnxruntime": saturating, "blas": products._with_blas}
    monkeypatch.setattr(products, "_PACKAGES", packages)
    monkeypatch.setattr(products, "_missing", lambda package: None)
    products._is_exact.cache_clear()
    try:
        b = np.ones((8, 2), np.int8)
        assert products.Prepared(b, dtype="uint8").package == "blas"
        message = "package: expected one that is exact for uint8 and int8 on this CPU, got "
        with pytest.raises(ValueError, match=f"^{message}onnxruntime$"):
            products.Prepared(b, dtype="uint8", package="onnxruntime")
    finally:
        products._is_exact.cache_clear()


ONES = np.ones((2, 3), np.int8)
BLAS = products.Prepared(ONES, package="blas")


def test_prepared_is_immutable():
    with pytest.raises(AttributeError, match=r"^dtype: expected no assignment, Prepared"):
        BLAS.dtype = "uint8"
