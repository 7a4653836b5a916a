# SPDX-License-Identifier: Apache-2.0
"""Multiply matrices of codes exactly, with the products of other packages.

The packages are ONNX Runtime (with onnx), NumKong, PyTorch, and the BLAS of NumPy. The
first product with a package imports the package.
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
    A matrix in the layout of a package, for many products.

    Parameters
    ----------
    b : array_like
        Codes of shape (K, N), see `matmul`. The object keeps a copy.
    dtype : dtype_like, optional
        The type of the codes `a` in `matmul`. Default int8.
    package : str or iterable of str, optional
        A package of `longest`, or several: the first installed package that is exact.
        Default: all, from fast to slow.
    threads : int, optional
        Largest number of threads of ONNX Runtime. Default 1. NumKong uses one thread.
        PyTorch and BLAS have their own settings, for all of the process.

    Attributes
    ----------
    shape : tuple of int
        (K, N).
    dtype, package : str
        The choices.

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
    Return the largest number of products that a package adds exactly.

    Parameters
    ----------
    a, b : dtype_like
        The types of both codes: integers of at most 8 bits.
    package : str
        ``"onnxruntime"``, ``"numkong"``, ``"torch"`` or ``"blas"``.

    Returns
    -------
    int
        The bound on K. Sums of extreme codes then fit int32. With ``"blas"``, they are at
        most 2**24, so that float32 stores each partial sum exactly.

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
        See `Prepared`. A prepared `b` has its package.

    Returns
    -------
    ndarray
        int32 sums of shape (..., N). All packages return equal sums.

    Raises
    ------
    TypeError
        If codes have a wrong type. A prepared `b` accepts one type.
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
    # "W" copies a read-only array, about which PyTorch would warn.
    rows = np.require(codes.reshape(-1, codes.shape[-1]), requirements=["C", "W"])
    sums: npt.NDArray[np.int32] = b._product(rows).reshape(shape)
    return sums


def _chosen(packages: str | Iterable[str], a: str, b: str, k: int) -> str:
    """Return the first package of several that can multiply, or check a given package."""
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
    """Return codes as int8 or uint8, and the name of their type."""
    codes = _check.array(values, name, _TYPES)
    found = _type_of(codes.dtype, name)
    return codes.astype(_bytes(found), copy=False), found


def _bytes(name: str) -> str:
    """Return uint8 for an unsigned type of codes, else int8."""
    return "uint8" if name[0] == "u" else "int8"


def _type_of(dtype: Any, name: str) -> str:
    """Return the name of a type of codes."""
    found = dtypes.requested(dtype)
    if found not in _TYPES:
        raise fail(TypeError, name, _check.listed(_TYPES), dtypes.shown(dtype))
    return found


def _missing(package: str) -> str | None:
    """Return the name of a required package that is not installed, or `None`."""
    needed = {"onnxruntime": ["onnxruntime", "onnx"], "blas": []}.get(package, [package])
    return next((one for one in needed if find_spec(one) is None), None)


@cache
def _is_exact(package: str, a_type: str, b_type: str) -> bool:
    """Return True if a package multiplies extreme codes exactly on this CPU.

    Without VNNI instructions, ONNX Runtime adds pairs of products in 16 bits and
    saturates.
    NumKong accepts equal types only, and PyTorch accepts no uint8 `b`.
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


# ---- packages: each function prepares `b`, and returns a function that multiplies ----


def _with_onnxruntime(b: Any, a_type: str, threads: int) -> Callable[[Any], Any]:
    """Multiply uint8 by int8, which is at least 15 times as fast as int8 by int8.

    The exclusive or converts codes of other types. The zero points undo the conversion.
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
    """Pack the columns of `b`. Sums of uint8 codes have type uint32."""
    numkong = import_module("numkong")
    packed = numkong.dots_pack(np.ascontiguousarray(b.T))
    return lambda a: np.asarray(numkong.dots_packed(a, packed)).view(np.int32)


def _with_torch(b: Any, a_type: str, threads: int) -> Callable[[Any], Any]:
    """Store `b` by columns."""
    torch = import_module("torch")
    # PyTorch computes wrong products if `b` has one row and both strides are 1.
    columns = torch.from_numpy(b.T.copy()).t() if len(b) > 1 else torch.from_numpy(b.copy())
    return lambda a: torch._int_mm(torch.from_numpy(a), columns).numpy()


def _with_blas(b: Any, a_type: str, threads: int) -> Callable[[Any], Any]:
    """Convert codes to float32."""
    reals = b.astype(np.float32)
    return lambda a: (a.astype(np.float32) @ reals).astype(np.int32)


_PACKAGES = {  # from fast to slow
    "onnxruntime": _with_onnxruntime,
    "numkong": _with_numkong,
    "torch": _with_torch,
    "blas": _with_blas,
}
# The order of packages for one product. ONNX Runtime is last, because creating a session
# takes longer than most products.
_FOR_ONE = ("numkong", "torch", "blas", "onnxruntime")
