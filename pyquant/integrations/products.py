# SPDX-License-Identifier: Apache-2.0
"""Multiply matrices of codes exactly, by functions of other packages.

The packages are ONNX Runtime (with onnx), NumKong, PyTorch, and the BLAS of NumPy. A
package is imported when it computes its first product.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import _check, _core, dtypes
from pyquant._check import fail

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import SupportsIndex

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = ["Prepared", "longest", "matmul"]
__dir__: object = __all__.copy

_TYPES = [t.name for t in dtypes.TYPES.values() if t.kind == "integer" and t.bits <= 8]
_FLIP = np.uint8(128)  # code ^ 128 adds 128 to int8, or subtracts 128 from uint8


class Prepared(_check.Immutable):
    """
    A matrix in the memory layout of a package, for many products.

    Parameters
    ----------
    b : array_like
        Codes of shape (K, N), see `matmul`. The object contains a copy of the codes.
    dtype : dtype_like, optional
        The type of the codes `a` in `matmul`. Default int8.
    package : str or iterable of str, optional
        The name of a package, see `longest`. Or several names: the object uses the first
        installed package that computes exact products. Default: all packages, beginning
        with the fastest.
    threads : int, optional
        Largest number of threads of ONNX Runtime. Default 1. NumKong uses one thread.
        PyTorch and BLAS use the number of threads that is set for the process.

    Attributes
    ----------
    shape : tuple of int
        The shape (K, N) of `b`.
    dtype, package : str
        The type of `a`, and the package that computes the products.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.integrations import products
    >>> w = products.Prepared(np.int8([[1, -2], [100, 3]]))  # once for each weight
    >>> products.matmul(np.int8([127, 127]), w)
    array([12827,   127], dtype=int32)
    """

    __slots__ = ("_product", "dtype", "package", "shape")
    shape: tuple[int, int]
    dtype: str
    package: str
    _product: Callable[[Any], npt.NDArray[Any]]

    def __init__(
        self,
        b: ArrayLike,
        *,
        dtype: npt.DTypeLike = "int8",
        package: str | Iterable[str] | None = None,
        threads: SupportsIndex = 1,
    ) -> None:
        count = _check.integer(threads, "threads", 1)
        codes, own = _codes(b, "b")
        found = _type_of(dtype, "dtype")
        if codes.ndim != 2:
            raise fail(ValueError, "b", "shape (K, N)", codes.shape)
        packages = _PACKAGES if package is None else package
        several = isinstance(packages, Iterable) and not isinstance(packages, str)
        for one in packages if several else [packages]:
            _check.choice(one, "package", _PACKAGES)
        package = _chosen(packages, found, own, codes.shape[0])
        made = _PACKAGES[package](codes, _bytes(found), count)
        kept = {"shape": codes.shape, "dtype": found, "package": package, "_product": made}
        for name, value in kept.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        package = f"package={self.package!r}"
        return f"Prepared(shape={self.shape}, dtype={self.dtype!r}, {package})"


def longest(a: npt.DTypeLike, b: npt.DTypeLike, package: str) -> int:
    """
    Return the maximum number of products that a package adds exactly.

    Parameters
    ----------
    a, b : dtype_like
        The types of the codes `a` and `b` in `matmul`: integers of at most 8 bits.
    package : str
        ``"onnxruntime"``, ``"numkong"``, ``"torch"`` or ``"blas"``.

    Returns
    -------
    int
        The maximum of K in `matmul`. Up to this K, sums of extreme codes fit int32. With
        ``"blas"``, sums are at most 2**24, so that float32 represents each partial sum
        exactly.

    Examples
    --------
    >>> from pyquant.integrations import products
    >>> products.longest("int8", "int8", "torch")  # -128 * -128 * 131072 is 2**31
    131071
    >>> products.longest("int8", "int8", "blas"), products.longest("int4", "int4", "blas")
    (1024, 262144)
    """
    rows = [dtypes.TYPES[_type_of(one, name)] for one, name in ((a, "a"), (b, "b"))]
    ends = [(row.lowest or 0, row.highest or 0) for row in rows]
    most = 2**24 if _check.choice(package, "package", _PACKAGES) == "blas" else 2**31 - 1
    return most // max(abs(x * y) for x in ends[0] for y in ends[1])


@_core.hinted
def matmul(
    a: ArrayLike, b: ArrayLike | Prepared, *, package: str | None = None
) -> npt.NDArray[np.int32]:
    """
    Return the exact matrix product of integer codes.

    Parameters
    ----------
    a : array_like
        Codes of shape (..., K), of an integer type of at most 8 bits.
    b : array_like or Prepared
        Codes of shape (K, N). If a weight has a row for each output, pass its transpose.
    package : str, optional
        Name of a package, see `longest`. By default, the function chooses a package. A
        `Prepared` matrix `b` determines the package.

    Returns
    -------
    ndarray
        int32 sums of products, of shape (..., N). The result does not depend on the
        package.

    Raises
    ------
    TypeError
        If codes have a wrong type. With a `Prepared` matrix `b`, `a` must have its `dtype`.
    ValueError
        If a shape is wrong, K exceeds `longest`, or no package fits.
    ImportError
        If `package` is not installed.

    Notes
    -----
    Codes with the zero point 0 need no correction:
    ``pyquant.dequantize(sums, (row_scale, column_scale))`` is the product of real numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> from pyquant.integrations import products
    >>> x, weight = np.float32([[0.5, -1.27]]), np.float32([[2.54, 0], [1.0, 1.27]])
    >>> codes, w = pq.dynamic_quantize(weight, axis=0)  # a row for each output
    >>> q, p = pq.dynamic_quantize(x, axis=0)
    >>> sums = products.matmul(q, codes.T)
    >>> pq.dequantize(sums, (p.scale, w.scale)).round(2)
    array([[ 1.27, -1.11]], dtype=float32)
    """
    codes, dtype = _codes(a, "a")
    if not isinstance(b, Prepared):
        b = Prepared(b, dtype=dtype, package=package or _FOR_ONE)
    elif package not in (None, b.package):
        raise fail(ValueError, "package", f"{b.package!r}, which prepared b", package)
    if dtype != b.dtype:
        raise fail(TypeError, "a", f"{b.dtype}, which b is prepared for", dtype)
    if codes.shape[-1:] != b.shape[:1]:
        raise fail(ValueError, "a", f"shape (..., {b.shape[0]})", codes.shape)
    shape = (*codes.shape[:-1], b.shape[1])
    if 0 in (*codes.shape, b.shape[1]):
        return np.zeros(shape, np.int32)
    # "W" copies a read-only array, because PyTorch warns about read-only arrays.
    rows = np.require(codes.reshape(-1, codes.shape[-1]), requirements=["C", "W"])
    sums: npt.NDArray[np.int32] = b._product(rows).reshape(shape)
    return sums


def _chosen(packages: str | Iterable[str], a: str, b: str, k: int) -> str:
    """Return the first of several packages that is installed and exact.

    If `packages` is one name, check the package, and return its name.
    """
    if not isinstance(packages, str):
        for package in packages:
            fits = not _missing(package) and k <= longest(a, b, package)
            if fits and _is_exact(package, _bytes(a), _bytes(b)):
                return package
        said = f"an installed package for {a}, {b} and K of {k}"
        raise fail(ValueError, "package", said, "none; pip install numkong")
    if k > (bound := longest(a, b, packages)):
        said = f"K of at most {bound} for {a}, {b} and {packages}"
        raise fail(ValueError, "b", said, k)
    if missing := _missing(packages):
        msg = f"package: {packages} needs {missing}: pip install {missing}"
        raise ImportError(msg)
    if not _is_exact(packages, _bytes(a), _bytes(b)):
        said = f"one that is exact for {a} and {b} on this CPU"
        raise fail(ValueError, "package", said, packages)
    return packages


def _codes(values: Any, name: str) -> tuple[npt.NDArray[Any], str]:
    """Return codes as an int8 or uint8 array, and the name of the original type."""
    codes = _check.array(values, name, _TYPES)
    found = _type_of(codes.dtype, name)
    return codes.astype(_bytes(found), copy=False), found


def _bytes(name: str) -> str:
    """Return "uint8" for an unsigned type of codes, and "int8" for a signed type."""
    return "uint8" if name[0] == "u" else "int8"


def _type_of(dtype: Any, name: str) -> str:
    """Return the name of a type of codes. Raise an error for all other types."""
    found = dtypes.requested(dtype)
    if found not in _TYPES:
        raise fail(TypeError, name, _check.listed(_TYPES), dtypes.shown(dtype))
    return found


def _missing(package: str) -> str | None:
    """Return the name of a package that must be installed for `package`, or `None`."""
    needed = {"onnxruntime": ["onnxruntime", "onnx"], "blas": []}.get(package, [package])
    return next((one for one in needed if find_spec(one) is None), None)


@cache
def _is_exact(package: str, a_type: str, b_type: str) -> bool:
    """Return True if a package multiplies extreme codes exactly on this CPU.

    The function multiplies small test matrices. On a CPU without VNNI instructions, ONNX
    Runtime adds pairs of products in 16 bits, and the sums saturate. NumKong requires equal
    types of `a` and `b`, and PyTorch does not support a `b` of type uint8.
    """
    ends = [[np.iinfo(one).max, np.iinfo(one).min] for one in (a_type, b_type)]
    for m, k, n in ((1, 64, 32), (9, 67, 33), (2, 1, 3)):
        a = np.where(np.arange(m * k).reshape(m, k) % 7 < 5, *ends[0])
        b = np.where(np.arange(k * n).reshape(k, n) % 11 < 8, *ends[1])
        try:
            product = _PACKAGES[package](b.astype(b_type), a_type, 1)
            made = product(a.astype(a_type))
        except (TypeError, ValueError, RuntimeError):
            return False
        if not np.array_equal(made, a @ b):
            return False
    return True


# ---- packages: each function prepares `b`, and returns a function of `a` ----


def _with_onnxruntime(b: Any, a_type: str, threads: int) -> Callable[[Any], Any]:
    """Return a function that multiplies uint8 codes by int8 codes with ONNX Runtime.

    Products of int8 by int8 would take at least 15 times as long. Codes with other types
    are converted by adding or subtracting 128. The zero points undo this conversion.
    """
    onnx, runtime = import_module("onnx"), import_module("onnxruntime")
    flip_a, flip_b = a_type == "int8", b.dtype == np.uint8
    constants = {
        "b": np.ascontiguousarray((b ^ _FLIP).view(np.int8) if flip_b else b),
        "a_zero": np.array(128 if flip_a else 0, np.uint8),
        "b_zero": np.array(-128 if flip_b else 0, np.int8),
    }
    helper, types = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", *constants], ["sums"])],
        "product",
        [helper.make_tensor_value_info("a", types.UINT8, ["M", "K"])],
        [helper.make_tensor_value_info("sums", types.INT32, ["M", "N"])],
        [onnx.numpy_helper.from_array(one, name) for name, one in constants.items()],
    )
    opsets = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    run = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run
    return lambda a: run(["sums"], {"a": a.view(np.uint8) ^ _FLIP if flip_a else a})[0]


def _with_numkong(b: Any, a_type: str, threads: int) -> Callable[[Any], Any]:
    """Pack the columns of `b`. NumKong's uint32 sums of uint8 codes are viewed as int32."""
    numkong = import_module("numkong")
    packed = numkong.dots_pack(np.ascontiguousarray(b.T))
    return lambda a: np.asarray(numkong.dots_packed(a, packed)).view(np.int32)


def _with_torch(b: Any, a_type: str, threads: int) -> Callable[[Any], Any]:
    """Store `b` in column order, and multiply with PyTorch."""
    torch = import_module("torch")
    # PyTorch computes wrong products if `b` has one row and both strides are 1.
    columns = torch.from_numpy(b.T.copy()).t() if len(b) > 1 else torch.from_numpy(b.copy())
    return lambda a: torch._int_mm(torch.from_numpy(a), columns).numpy()


def _with_blas(b: Any, a_type: str, threads: int) -> Callable[[Any], Any]:
    """Convert codes to float32, and multiply with BLAS."""
    reals = b.astype(np.float32)
    return lambda a: (a.astype(np.float32) @ reals).astype(np.int32)


_PACKAGES = {  # the fastest package is first
    "onnxruntime": _with_onnxruntime,
    "numkong": _with_numkong,
    "torch": _with_torch,
    "blas": _with_blas,
}
# The order in which `matmul` tries packages for a single product. ONNX Runtime is last,
# because the creation of its session takes longer than most products.
_FOR_ONE = ("numkong", "torch", "blas", "onnxruntime")
