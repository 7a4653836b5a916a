# SPDX-License-Identifier: Apache-2.0
"""FakeQuantize of OpenVINO, and its parameters in models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _core
from pyquant._check import fail, integer
from pyquant.qparams import QParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = ["fake_quantize", "qparams"]

_MOST = 1 << 16  # largest number of levels
_ENDS = ("input_low", "input_high", "output_low", "output_high")
__dir__: object = __all__.copy


@_core.default_fpenv
def fake_quantize(
    x: ArrayLike,
    input_low: ArrayLike,
    input_high: ArrayLike,
    output_low: ArrayLike,
    output_high: ArrayLike,
    levels: SupportsIndex,
    *,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Round values to levels of an input range and map them to an output range.

    Parameters
    ----------
    x : array_like
        Array of float32, float64, float16 or bfloat16, of any shape, strides and byte
        order. Python numbers become float32.
    input_low, input_high : array_like
        Finite ends of the input ranges, rounded to float32. Values beyond an end are
        clipped to the end. One element, or a shape that broadcasts to the shape of `x`.
    output_low, output_high : array_like
        Ends of the output ranges; see `input_low`. The high end may be below the low end.
    levels : int
        Number of levels including both ends, from 2 to 65536.
    out : ndarray, optional
        Array for the result, with the shape and dtype of `x` and any strides.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    ndarray
        Array with the shape and dtype of `x`, or `out`. NaN becomes `output_low`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value or a shape is wrong; `out` is unchanged.

    Notes
    -----
    The order of operations follows OpenVINO 2026.4 on x86 CPUs, not the specification. Each
    float32 operation is rounded, and `fma` once::

        slope = (levels - 1) / (input_high - input_low)
        shift = -input_low * slope
        level = round_half_even(clip(x, input_low, input_high) * slope + shift)
        result = fma(level, (output_high - output_low) / (levels - 1), output_low)

    If `input_low` is not below `input_high`, the result follows the text of the
    specification, also in float32: `output_low` if `x` is at most the smaller end,
    `output_high` if `x` is above the larger end, and otherwise::

        level = round_half_even((x - input_low) / (input_high - input_low) * (levels - 1))
        result = level / (levels - 1) * (output_high - output_low) + output_low

    If `x` is not float32, `x` is rounded to float32, and the result to the type of `x`.

    Results are equal on every CPU. OpenVINO may differ in these cases: without FMA; in a
    model with other operations; with 15, 16, 255 or 256 levels, unless its property
    LP_TRANSFORMS_MODE is "NO"; with equal ends, which give NaN; with inverted ends, if only
    some of several ranges are inverted or if `x` is NaN; and in bfloat16. OpenVINO returns
    -0 if a level below 0 is rounded to 0 and `output_low` is -0.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant import openvino
    >>> openvino.fake_quantize(np.float32([-1, -0.7, 0.2, 3]), -1, 1, 0, 8, 5)
    array([0., 2., 4., 8.], dtype=float32)
    """
    count = integer(levels, "levels", 2, _MOST)
    array = _core.as_reals(x, "x")
    if _core.is_untyped(x):
        array = _core.cast(array, "float32")
    given = (input_low, input_high, output_low, output_high)
    ranges = _ranges_of(given, array.shape)
    params = params_of(ranges, count)
    low, high, first, last = ranges
    finite = np.isfinite(params)
    said = "input_high: expected ranges whose levels float32 can tell"
    _refuse(~finite[..., 2:4].all(-1), said, low, "to", high)
    said = "output_high: expected ranges that float32 can hold"
    _refuse(~finite[..., 4], said, first, "to", last)
    return _core.fake_levels(array, params, out, threads)


@_core.default_fpenv
def params_of(
    ranges: Sequence[npt.NDArray[np.float32]], levels: int
) -> npt.NDArray[np.float32]:
    """Return the six parameters of each range, in the order of pq_level_params."""
    low, high, first, last = ranges
    count = np.float32(levels - 1)
    params = np.empty((*low.shape, 6), np.float32)
    with np.errstate(all="ignore"):
        width, height = high - low, last - first
        params[..., 0] = low
        params[..., 1] = high
        params[..., 2] = count / width
        params[..., 3] = -low * params[..., 2]
        params[..., 4] = height / count
        params[..., 5] = first
        inverted = low >= high
        if inverted.any():
            steps = np.where(np.isfinite(width), count, np.inf)  # infinite: an error
            for field, values in ((2, steps), (3, last), (4, height)):
                params[..., field] = np.where(inverted, values, params[..., field])
    return params


@_core.default_fpenv
def qparams(model: Any, tensor: str) -> QParams:
    """
    Return the quantization parameters of a tensor of a model.

    Parameters
    ----------
    model : openvino.Model
        A model with FakeQuantize operations, as ``openvino.Core().read_model`` returns it.
    tensor : str
        Name of a FakeQuantize, or of its data input or output.

    Returns
    -------
    QParams
        Codes from 0 to ``levels - 1`` of uint8, or uint16 above 256 levels. The scale is
        ``(high - low) / (levels - 1)``, rounded once to float32, and the offset is `low`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the tensor has no FakeQuantize, or the ends are not constant, or the input and
        the output of the operation have different ends.

    Examples
    --------
    >>> import numpy as np
    >>> import openvino as ov
    >>> import pyquant as pq
    >>> x = ov.opset13.parameter([4], np.float32, name="x")
    >>> ends = [np.float32(-1), np.float32(1)] * 2
    >>> model = ov.Model([ov.opset13.fake_quantize(x, *ends, 256)], [x])
    >>> pq.openvino.qparams(model, "x").quantize([-1.0, 0.1, 1.0])
    array([  0, 140, 255], dtype=uint8)
    """
    if not hasattr(model, "get_ops"):
        raise fail(TypeError, "model", "an openvino.Model", type(model))
    names = []
    for one in model.get_ops():
        if one.get_type_name() == "FakeQuantize":
            data = one.input_value(0)
            own = [one.get_friendly_name(), data.get_node().get_friendly_name()]
            names += [*own, *data.get_names(), *one.output(0).get_names()]
            if tensor in names:
                return _params_of(one)
    kind = ValueError if isinstance(tensor, str) else TypeError
    got = tensor if kind is ValueError else type(tensor)
    raise fail(kind, "tensor", "the data or result of FakeQuantize", got, names or [""])


def _params_of(operation: Any) -> QParams:
    """Return the parameters of a FakeQuantize."""
    ends = [operation.input_value(i).get_node() for i in range(1, 5)]
    if any(one.get_type_name() != "Constant" for one in ends):
        raise fail(ValueError, "tensor", "constant ends", "computed ones")
    low, high, *others = (_core.cast(one.get_data(), "float64") for one in ends)
    if not all(map(np.array_equal, others, (low, high))):
        expected = "equal ends of input and output"
        raise fail(ValueError, "tensor", expected, "different ones")
    levels = operation.get_attributes()["levels"]
    low, high = np.broadcast_arrays(low, high)
    if low.size == 1:
        low, high = low.reshape(()), high.reshape(())
    return QParams(
        _core.cast((high - low) / (levels - 1), "float32"),
        None,
        "uint8" if levels <= 1 << 8 else "uint16",
        axis=-1 if low.ndim == 1 else None,
        offset=_core.cast(low, "float32"),
        quant_range=(0, levels - 1),
    )


def _ranges_of(
    given: Sequence[ArrayLike], shape: tuple[int, ...]
) -> list[npt.NDArray[np.float32]]:
    """Return the ends as four arrays of equal shape. The shape broadcasts to the shape of
    `x`."""
    arrays = []
    for name, value in zip(_ENDS, given, strict=True):
        array = _core.as_reals(value, name)
        if array.dtype != np.float32:
            array = _core.cast(array, "float32")
        if array.size == 1:
            array = array.reshape(())
        dims = (*[1] * (len(shape) - array.ndim), *array.shape)
        pairs = zip(dims, shape, strict=False)
        if len(dims) != len(shape) or any(one not in (1, extent) for one, extent in pairs):
            expected = f"a shape that broadcasts to {shape}"
            raise fail(ValueError, name, expected, array.shape)
        _refuse(~np.isfinite(array), f"{name}: expected finite numbers", array)
        arrays.append(array)
    return list(np.broadcast_arrays(*arrays))


def _refuse(wrong: Any, expected: str, low: Any, word: str = "", high: Any = None) -> None:
    """Raise an error about the first wrong element, if any."""
    if not wrong.any():
        return
    place = tuple(np.argwhere(wrong)[0].tolist())
    got = str(low[place]) if high is None else f"{low[place]!s} {word} {high[place]!s}"
    where = f", the first at index {place}" if place else ""
    raise ValueError(f"{expected}, got {got}{where}")
