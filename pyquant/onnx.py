# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear of ONNX.

Opsets 10 to 28.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _standard, dtypes
from pyquant._shown import shown

if TYPE_CHECKING:
    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.packed import PackedArray

__all__ = [
    "dequantize_linear",
    "dynamic_quantize_linear",
    "quantize_linear",
    "reference_ops",
]


def __dir__() -> list[str]:
    return sorted(__all__)


FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
QUANTIZED = (
    *("uint8", "int8", "uint16", "int16"),
    *("int4", "uint4", "int2", "uint2"),
    *FLOAT8,
    *("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
)
REAL = ("float32", "float16", "bfloat16")
REAL_OR_INT32 = (*REAL, "int32")
QUANTIZED_OR_INT32 = (*QUANTIZED, "int32")
QUANTIZE_SCALE = (*REAL, "int32", "float8_e8m0fnu")
DEQUANTIZE_SCALE = (*REAL, "float8_e8m0fnu")
# Default attributes, compared by identity for the short path.
NOT_GIVEN = 0  # of types
CLIPS = 1
# The integers of TensorProto.DataType.
TENSOR_PROTO = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    10: "float16",
    11: "float64",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
    27: "float6_e2m3fn",
    28: "float6_e3m2fn",
}

_PLACES = ("single", "axis", "blocks")
_USUAL_REALS = _standard.Usual(REAL_OR_INT32, REAL, QUANTIZED, _PLACES, narrow_first=True)
_USUAL_CODES = _standard.Usual(QUANTIZED_OR_INT32, REAL, QUANTIZED_OR_INT32, _PLACES)


def quantize_linear(
    x: ArrayLike,
    y_scale: ArrayLike,
    y_zero_point: ArrayLike | None = None,
    *,
    axis: SupportsIndex = 1,
    block_size: SupportsIndex = 0,
    saturate: int | np.integer[Any] | np.bool = 1,
    output_dtype: Any = 0,
    precision: Any = 0,
) -> npt.NDArray[Any]:
    """
    Quantize: ``saturate(round(x / y_scale) + y_zero_point)``.

    Parameters
    ----------
    x : array_like
        float32, float16, bfloat16 or int32.
    y_scale : array_like
        float32, float16, bfloat16, int32 or float8_e8m0fnu: one element with rank 0 or 1;
        one dimension with the extent of `x` along `axis`; or, with `block_size`, the rank
        of `x`.
    y_zero_point : array_like, optional
        Zero points with the shape of `y_scale`. Their type is the type of the result.
        Python integers get the type `output_dtype`, else uint8, and must be within its
        range.
    axis : int, optional
        The axis of scales and blocks; negative values count from the end. Default 1.
    block_size : int, optional
        Number of elements along `axis` that share a scale; `y_scale` has ``ceil(n /
        block_size)`` elements there. Default 0: no blocks.
    saturate : int, optional
        For float8: 1 (the default) clips values that are too large; 0 converts them to
        infinity or NaN.
    output_dtype : int or dtype_like, optional
        Type of the result: TensorProto's integer, a dtype or its name. Default: the type of
        `y_zero_point`, else uint8.
    precision : int or dtype_like, optional
        Type of the division: float32, float16 or bfloat16. `x`, `y_scale` and the quotient
        are rounded to it. Default: the type of `y_scale`, or float32 for int32 and
        float8_e8m0fnu.

    Returns
    -------
    ndarray
        Codes, with the shape of `x`.

    Raises
    ------
    TypeError
        If element types do not match.
    ValueError
        If values or shapes are wrong.
    numpy.exceptions.AxisError
        If `axis` is out of bounds and not ignored.

    Notes
    -----
    Float8 zero points select the type, and are added only if one of them is not 0. Float6
    and float4 zero points are added before the conversion.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.onnx.quantize_linear(np.float32([0.5, 1.5, 300]), np.float32(1), np.uint8(1))
    array([  1,   3, 255], dtype=uint8)
    """
    op = "ONNX QuantizeLinear"
    if output_dtype is NOT_GIVEN and precision is NOT_GIVEN and saturate is CLIPS:
        y = _USUAL_REALS.quantize(x, y_scale, y_zero_point, axis, block_size=block_size)
        if y is not None:
            return y
    source, _ = _standard.array_of(x, "x", op, REAL_OR_INT32)
    s, scale_type = _standard.array_of(y_scale, "y_scale", op, QUANTIZE_SCALE)
    code = None
    if output_dtype is not NOT_GIVEN:
        code = _dtype(output_dtype, "output_dtype", op, QUANTIZED)
    z = None
    if y_zero_point is not None:
        untyped = _standard.is_untyped(y_zero_point)
        types = (code or "uint8",) if untyped else QUANTIZED
        z, own = _standard.array_of(y_zero_point, "y_zero_point", op, types)
        if untyped:
            own = types[0]
        if code not in (None, own):
            expected = f"the type of y_zero_point, {own}"
            raise _standard.refuse(ValueError, "output_dtype", op, expected, code)
        code = own
    at, block = _where(source, s, z, axis, block_size, "y", op)
    quotient = None
    if precision is not NOT_GIVEN:
        quotient = _dtype(precision, "precision", op, REAL)
    clips = saturate is CLIPS or _flag(saturate, op)
    if code in FLOAT8:
        if z is not None and _standard.all_zero(z):
            z = None
    else:
        clips = True
    return _standard.quantize(
        source,
        s,
        z,
        dtype=code or "uint8",
        axis=at,
        block_size=block,
        precision=quotient or (scale_type if scale_type in REAL else "float32"),
        saturate=clips,
        narrow_first=True,
    )


def dequantize_linear(
    x: ArrayLike | PackedArray,
    x_scale: ArrayLike,
    x_zero_point: ArrayLike | None = None,
    *,
    axis: SupportsIndex = 1,
    block_size: SupportsIndex = 0,
    output_dtype: Any = 0,
) -> npt.NDArray[Any]:
    """
    Dequantize: ``(x - x_zero_point) * x_scale``.

    Parameters
    ----------
    x : array_like or PackedArray
        int8, uint8, int16, uint16, int32, int4, uint4, int2, uint2, or a narrow float:
        float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float6_e2m3fn,
        float6_e3m2fn, float4_e2m1fn.
    x_scale : array_like
        float32, float16, bfloat16 or float8_e8m0fnu; see `quantize_linear` for shapes.
    x_zero_point : array_like, optional
        Zero points with the type of `x` and the shape of `x_scale`; 0 for float8.
    axis, block_size : int, optional
        See `quantize_linear`.
    output_dtype : int or dtype_like, optional
        float32, float16 or bfloat16: TensorProto's integer, a dtype or its name. Default:
        the type of `x_scale`. A float8_e8m0fnu `x_scale` requires it.

    Returns
    -------
    ndarray
        Real numbers, with the shape of `x`.

    Raises
    ------
    TypeError
        If element types do not match.
    ValueError
        If values or shapes are wrong.
    numpy.exceptions.AxisError
        If `axis` is out of bounds and not ignored.

    Notes
    -----
    The difference is exact, followed by one multiplication in float32 and one conversion to
    the type of the result, like ONNX's reference and ONNX Runtime.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> q = np.uint8([[0, 3], [128, 255]])
    >>> pq.onnx.dequantize_linear(q, np.float32([2, 0.5]), np.uint8([128, 0]), axis=0)
    array([[-256. , -250. ],
           [  64. ,  127.5]], dtype=float32)
    """
    op = "ONNX DequantizeLinear"
    if output_dtype is NOT_GIVEN:
        y = _USUAL_CODES.dequantize(x, x_scale, x_zero_point, axis, block_size=block_size)
        if y is not None:
            return y
    q, code = _standard.array_of(x, "x", op, QUANTIZED_OR_INT32)
    s, scale_type = _standard.array_of(x_scale, "x_scale", op, DEQUANTIZE_SCALE)
    z = None
    if x_zero_point is not None:
        z, _ = _standard.array_of(x_zero_point, "x_zero_point", op, (code,))
        if code in FLOAT8 and not _standard.all_zero(z):
            raise _standard.refuse(
                ValueError, "x_zero_point", op, f"zeros for {code}", "another number"
            )
    at, block = _where(q, s, z, axis, block_size, "x", op)
    real: str | None = scale_type
    if output_dtype is not NOT_GIVEN:
        real = _dtype(output_dtype, "output_dtype", op, REAL) or scale_type
    if real not in REAL:
        expected = f"a type where x_scale is {scale_type}"
        raise _standard.refuse(ValueError, "output_dtype", op, expected, output_dtype)
    return _standard.dequantize(q, s, z, dtype=real, axis=at, block_size=block)


def dynamic_quantize_linear(
    x: ArrayLike,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """
    Quantize to uint8 with parameters that cover the range of the data.

    Parameters
    ----------
    x : array_like
        float32.

    Returns
    -------
    y : ndarray
        uint8 codes, with the shape of `x`.
    y_scale : ndarray
        float32 scale with rank 0.
    y_zero_point : ndarray
        uint8 zero point with rank 0.

    Raises
    ------
    TypeError
        If `x` has another type.

    Notes
    -----
    All steps are float32, with ``lo = min(0, min(x))`` and ``hi = max(0, max(x))``::

        y_scale = (hi - lo) / 255
        y_zero_point = round_half_even(clip(0 - lo / y_scale, 0, 255))

    An empty range or empty data gets scale 1 and zero point 0, like in ONNX Runtime, so
    that codes can be dequantized. With NaN in `x`, the scale is NaN, and all codes and the
    zero point are 0.

    Examples
    --------
    >>> import pyquant as pq
    >>> y, scale, zero_point = pq.onnx.dynamic_quantize_linear([-1.0, 0.5, 2.0])
    >>> y, float(scale), int(zero_point)
    (array([  0, 127, 255], dtype=uint8), 0.0117647061124444, 85)
    """
    source, _ = _standard.array_of(x, "x", "ONNX DynamicQuantizeLinear", ("float32",))
    scale, zero_point = _standard.dynamic_range(source)
    return _standard.quantize(source, scale, zero_point, dtype="uint8"), scale, zero_point


def reference_ops() -> list[type]:
    """
    Return operator classes for the reference evaluator of the package onnx.

    Returns
    -------
    list of type
        Classes for ``onnx.reference.ReferenceEvaluator(model, new_ops=reference_ops())``.
        The evaluator then uses pyquant's kernels for these operators. For functions in the
        model, it uses its own operators, so inline the functions first. QuantizeLinear
        divides in float32 in models of opset 22 and earlier, like ONNX Runtime, because
        these texts do not define the type of the division.

    Raises
    ------
    ImportError
        If onnx is not installed.

    Examples
    --------
    >>> import pyquant as pq
    >>> sorted({op.__name__ for op in pq.onnx.reference_ops()})
    ['DequantizeLinear', 'DynamicQuantizeLinear', 'QuantizeLinear']
    """
    try:
        from pyquant._onnx_ops import OPS
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "onnx":
            raise  # onnx is installed but incomplete
        msg = "reference_ops: the package onnx is needed: pip install onnx"
        raise ImportError(msg) from None
    return list(OPS)


def _dtype(given: Any, name: str, op: str, allowed: tuple[str, ...]) -> str | None:
    """Return the name of a type, or `None`."""
    is_number = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
    if is_number and given == 0:
        return None
    found = TENSOR_PROTO.get(int(given)) if is_number else _standard.requested(given)
    if found not in allowed:
        expected = f"0, {_standard.listed(allowed)}"
        got = found or (shown(given) if isinstance(given, int) else dtypes.shown(given))
        raise _standard.refuse(TypeError, name, op, expected, got)
    return found


def _flag(saturate: Any, op: str) -> bool:
    if not isinstance(saturate, (int, np.integer, np.bool)):
        got = type(saturate).__name__
        raise _standard.refuse(TypeError, "saturate", op, "0 or 1", got)
    if saturate not in (0, 1):
        raise _standard.refuse(ValueError, "saturate", op, "0 or 1", repr(saturate))
    return bool(saturate)


def _where(
    x: npt.NDArray[Any],
    scale: npt.NDArray[Any],
    zero_point: npt.NDArray[Any] | None,
    axis: SupportsIndex,
    block_size: SupportsIndex,
    prefix: str,
    op: str,
) -> tuple[int | None, int | None]:
    """Return axis and block size by the shape of the scale, after the shape checks."""
    block = block_size
    if type(block) is not int:
        block = _standard.integer(block_size, "block_size", op)
    if type(axis) is not int:
        _standard.integer(axis, "axis", op)
    if block < 0:
        raise _standard.refuse(ValueError, "block_size", op, "0 or more", block)
    shape = scale.shape
    if (
        zero_point is not None
        and zero_point.shape != shape
        and not _standard.both_single(zero_point, scale)
    ):
        expected = f"the shape of {prefix}_scale, {shape}"
        raise _standard.refuse(
            ValueError, f"{prefix}_zero_point", op, expected, zero_point.shape
        )
    if not shape or shape == (1,):
        return None, None
    name = f"{prefix}_scale"
    if len(shape) > 1 and block == 0:
        expected = "a scalar or one dimension without block_size"
        raise _standard.refuse(ValueError, name, op, expected, f"shape {shape}")
    at = _standard.axis_of(axis, x.ndim, op)
    if block == 0:
        if shape != (x.shape[at],):
            raise _standard.wrong_shape(name, op, (x.shape[at],), shape)
        return at, None
    blocks = list(x.shape)
    blocks[at] = -(-blocks[at] // block)
    if shape != tuple(blocks):
        raise _standard.wrong_shape(name, op, tuple(blocks), shape)
    return at, block
