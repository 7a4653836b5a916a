# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear of ONNX.

Opsets 10 to 28.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _check, _core, _standard
from pyquant.qparams import QParams

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.packed import PackedArray

__all__ = [
    "dequantize_linear",
    "dynamic_quantize_linear",
    "qparams",
    "quantize_linear",
    "reference_ops",
]
__dir__: object = __all__.copy

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

_TYPES: dict[int, str | None] = {0: None, **TENSOR_PROTO}
QUANTIZE = _standard.Operator(
    "ONNX QuantizeLinear",
    input=("x", REAL_OR_INT32),
    scale=("y_scale", QUANTIZE_SCALE),
    dtype=("output_dtype", QUANTIZED, _TYPES, "0, "),
    zero=("y_zero_point", QUANTIZED, "typing"),
    places="blocks",
    precision=("precision", REAL, _TYPES, "0, "),
    saturate=True,
    float8="drop",
    narrow_first=True,
)
DEQUANTIZE = _standard.Operator(
    "ONNX DequantizeLinear",
    input=("x", QUANTIZED_OR_INT32),
    scale=("x_scale", DEQUANTIZE_SCALE),
    zero=("x_zero_point",),
    float8="zeros",
    places="blocks",
    dtype=("output_dtype", REAL, _TYPES, "0, "),
)


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
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
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
        Zero points with the shape of `y_scale`. The result has the type of the zero points.
        Python integers become `output_dtype` (default uint8), and must be within the range
        of that type.
    axis : int, optional
        The axis of scales and blocks; negative values count from the end. Default 1.
    block_size : int, optional
        Number of elements along `axis` that share a scale. For an extent n of `x`,
        `y_scale` has the extent ``ceil(n / block_size)`` along `axis`. Default 0: no
        blocks.
    saturate : int, optional
        For float8: 1 (the default) clips values that are too large; 0 converts them to
        infinity or NaN.
    output_dtype : int or dtype_like, optional
        Type of the result: TensorProto's integer, a dtype or its name. Default: the type of
        `y_zero_point`, else uint8.
    precision : int or dtype_like, optional
        Type of the division: float32, float16 or bfloat16. `x`, `y_scale` and the quotient
        are rounded to this type. Default: the type of `y_scale`, or float32 for int32 and
        float8_e8m0fnu.
    out : ndarray, optional
        Array for the result, of the exact shape and dtype, with any strides.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    ndarray
        Codes, with the shape of `x`, or `out`.

    Raises
    ------
    TypeError
        If element types do not match.
    ValueError
        If values or shapes are wrong.
    numpy.exceptions.AxisError
        If the call uses `axis`, and `axis` is out of bounds.

    Notes
    -----
    QuantizeLinear of opsets 10 to 28.

    Float8 zero points select the type. Float8 zero points are added only if one is not 0.
    Float6 and float4 zero points are added before the conversion. Integer codes of float32
    `x` equal ONNX Runtime 1.32. The page "Standards" lists the deviations of ONNX Runtime.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.onnx.quantize_linear(np.float32([0.5, 1.5, 300]), np.float32(1), np.uint8(1))
    array([  1,   3, 255], dtype=uint8)
    """
    return QUANTIZE.run(
        x,
        y_scale,
        y_zero_point,
        axis,
        out,
        threads,
        output_dtype,
        block_size,
        None,
        saturate,
        precision,
    )


def dequantize_linear(
    x: ArrayLike | PackedArray,
    x_scale: ArrayLike,
    x_zero_point: ArrayLike | None = None,
    *,
    axis: SupportsIndex = 1,
    block_size: SupportsIndex = 0,
    output_dtype: Any = 0,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
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
        the type of `x_scale`. A float8_e8m0fnu `x_scale` requires `output_dtype`.
    out, threads : optional
        See `quantize_linear`.

    Returns
    -------
    ndarray
        Real numbers, with the shape of `x`, or `out`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        See `quantize_linear`.

    Notes
    -----
    DequantizeLinear of opsets 10 to 28.

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
    return DEQUANTIZE.run(
        x, x_scale, x_zero_point, axis, out, threads, output_dtype, block_size
    )


def dynamic_quantize_linear(
    x: ArrayLike,
    *,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """
    Quantize to uint8 with parameters that cover the range of the data.

    Parameters
    ----------
    x : array_like
        float32.
    out : ndarray, optional
        uint8 array for the codes, with the shape of `x` and any strides.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    y : ndarray
        uint8 codes, with the shape of `x`, or `out`.
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
    op, types = "ONNX DynamicQuantizeLinear", ("float32",)
    array: Any = x
    if _core.known(x) not in types:
        array, _ = _standard.converted(x, "x", op, types)
    scale, zero = _core.dynamic_range(array)
    codes = _core.quantize(array, scale, zero, dtype=np.uint8, out=out, threads=threads)
    return codes, scale, zero


def reference_ops() -> list[type]:
    """
    Return operator classes for the reference evaluator of the package onnx.

    Returns
    -------
    list of type
        Classes for ``onnx.reference.ReferenceEvaluator(model, new_ops=reference_ops())``.
        The evaluator then uses pyquant's kernels for these operators. For functions in the
        model, the evaluator uses its own operators, so inline the functions first.
        QuantizeLinear divides in float32 in models of opset 22 and earlier, like ONNX
        Runtime, because these opsets do not define the type of the division.

    Examples
    --------
    >>> import pyquant as pq
    >>> sorted({op.__name__ for op in pq.onnx.reference_ops()})
    ['DequantizeLinear', 'DynamicQuantizeLinear', 'QuantizeLinear']
    """
    with _needing_onnx("reference_ops"):
        from pyquant._onnx_ops import OPS
    return list(OPS)


def qparams(model: Any, tensor: str) -> QParams:
    """
    Return the quantization parameters of a tensor of a model.

    Parameters
    ----------
    model : str, os.PathLike or onnx.ModelProto
        The model, or the path of its file.
    tensor : str
        Name of the data input or the output of a QuantizeLinear or DequantizeLinear node.
        Subgraphs are not searched.

    Returns
    -------
    QParams
        Scales, zero points, type and granularity of the node.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the tensor has no such node, or nodes with different parameters, or parameters
        that are not constant.
    ImportError
        If onnx is not installed.

    Examples
    --------
    >>> import onnx.parser
    >>> import pyquant as pq
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 21]>
    ...     g (float[N] image) => (uint8[N] codes)
    ...     <float s = {0.5}, uint8 z = {3}> {codes = QuantizeLinear(image, s, z)}''')
    >>> pq.onnx.qparams(model, "image").quantize([0.5, 1.5, -9.0])
    array([4, 6, 0], dtype=uint8)
    """
    with _needing_onnx("qparams"):
        import onnx
        import onnx.numpy_helper
        from google.protobuf.message import DecodeError
    folder = ""
    if isinstance(model, (str, os.PathLike)):
        folder = os.path.dirname(os.fspath(model))
        try:
            model = onnx.load(model, load_external_data=False)
        except DecodeError:
            raise _check.fail(
                ValueError, "model", "an ONNX file", os.fspath(model)
            ) from None
    if not hasattr(model, "graph"):
        raise _check.fail(TypeError, "model", "a path or an onnx.ModelProto", type(model))
    nodes = model.graph.node
    constants = {one.name: one for one in model.graph.initializer}
    for node in nodes:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    made, names = [], []
    for node in nodes:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            names += [node.input[0], node.output[0]]
            if tensor in names[-2:]:
                given = [one for one in node.input[1:] if one]
                for one in given:
                    if one not in constants:
                        expected = "a tensor with constant parameters"
                        raise _check.fail(ValueError, "tensor", expected, f"{one!r}")
                arrays = [onnx.numpy_helper.to_array(constants[k], folder) for k in given]
                dtype = _code_type(model.graph, node, constants)
                made.append(_params_of(node, dtype, *arrays))
    if not made:
        expected = "the data or result of QuantizeLinear or DequantizeLinear"
        kind = ValueError if isinstance(tensor, str) else TypeError
        got = tensor if kind is ValueError else type(tensor)
        raise _check.fail(kind, "tensor", expected, got, names or [""])
    if any(one != made[0] for one in made):
        raise _check.fail(ValueError, "tensor", "one set of parameters", "different ones")
    return made[0]


def _code_type(graph: Any, node: Any, constants: dict[str, Any]) -> str:
    """Return the type of the codes of a node."""
    infos = (*graph.input, *graph.value_info)
    types = {one.name: one.type.tensor_type.elem_type for one in infos}
    types |= {name: one.data_type for name, one in constants.items()}
    if len(node.input) > 2 and node.input[2]:
        return _type_of(types, node.input[2])
    if node.op_type == "QuantizeLinear":
        named = [one.i for one in node.attribute if one.name == "output_dtype"]
        return TENSOR_PROTO.get(named[0] if named else 0, "uint8")
    codes = node.input[0]
    for one in graph.node:
        if one.op_type == "QuantizeLinear" and one.output[0] == codes:
            return _code_type(graph, one, constants)
    return _type_of(types, codes)


def _type_of(types: dict[str, int], name: str) -> str:
    """Return the name of the type of a tensor."""
    if types.get(name) not in TENSOR_PROTO:
        expected = f"a known type of {name!r}"
        raise _check.fail(ValueError, "tensor", expected, "a model without it")
    return TENSOR_PROTO[types[name]]


def _params_of(node: Any, dtype: str, scale: Any, zero: Any = None) -> QParams:
    """Return the parameters of a node."""
    if scale.size == 1:
        scale, zero = scale.reshape(()), None if zero is None else zero.reshape(())
        return QParams(scale, zero, dtype)
    attributes = {one.name: one.i for one in node.attribute}
    size = attributes.get("block_size", 0) or None
    return QParams(scale, zero, dtype, axis=attributes.get("axis", 1), block_size=size)


@contextmanager
def _needing_onnx(function: str) -> Iterator[None]:
    """Replace ImportError, if the package onnx is missing, by an error that names the
    package."""
    try:
        yield
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "onnx":
            raise  # onnx lacks a dependency
        msg = f"{function}: the package onnx is needed: pip install onnx"
        raise ImportError(msg) from None
