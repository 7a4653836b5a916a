# SPDX-License-Identifier: Apache-2.0
"""Read the quantization parameters of TFLite (LiteRT) interpreters.

An interpreter describes each tensor of a model by a mapping. This module reads the mapping,
and does not import the package of TFLite.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import _core
from pyquant._check import fail
from pyquant.qparams import QParams

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

__all__ = ["qparams"]
__dir__: object = __all__.copy


@_core.default_fpenv
def qparams(detail: Mapping[str, Any]) -> QParams:
    """
    Return the quantization parameters of a tensor of an interpreter.

    Parameters
    ----------
    detail : mapping
        An item of the list that ``interpreter.get_input_details()`` or
        ``interpreter.get_output_details()`` returns.

    Returns
    -------
    QParams
        float32 scales, and zero points with the type of the tensor.

    Raises
    ------
    TypeError, ValueError
        If `detail` is invalid, or describes a tensor that is not quantized.

    Notes
    -----
    Call the function once for each tensor, and keep the result ``p``. To quantize an image
    of uint8 pixels, call ``p.requantize(image, pixels)``. The parameters ``pixels`` are a
    result of `pyquant.QParams.from_normalization`.

    ``p.quantize(x, rounding="half_away")`` equals TFLite's reference kernels for float32:
    ``saturate(round_half_away(x / scale) + zero_point)``. The optimized kernels multiply by
    the float32 reciprocal of the scale and round half to even, like
    ``pyquant.quantize(x, 1 / p.scale, p.zero_point, inverse=True)``.

    ``p.dequantize(q)`` equals the reference kernels. The optimized kernels round the
    products of the scale with the code and with the zero point, like
    ``pyquant.dequantize(q, p.scale, offset=p.zero_point * -p.scale)``.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.integrations import tflite
    >>> detail = {"name": "image", "dtype": np.int8, "quantization_parameters": {
    ...     "scales": np.float32([1 / 128]), "zero_points": np.int32([-1]),
    ...     "quantized_dimension": 0}}
    >>> p = tflite.qparams(detail)
    >>> p.quantize(np.float32([0, 0.5, 0.99609375, 2]), rounding="half_away")
    array([ -1,  63, 127, 127], dtype=int8)
    """
    try:
        dtype = np.dtype(detail["dtype"])
        found = detail["quantization_parameters"]
        scales, zeros = found["scales"], found["zero_points"]
        axis = index(found["quantized_dimension"])
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        # The message omits the value, because Python cannot show a value that is nested too
        # deeply.
        msg = (
            "detail: expected one of an interpreter's get_input_details() or "
            f"get_output_details(), got {type(detail).__name__}"
        )
        raise TypeError(msg) from None
    scales = _numbers(scales, "scales", "fiu", "real numbers")
    zeros = _numbers(zeros, "zero_points", "iu", "integers")
    if scales.size == 0:
        raise fail(ValueError, "detail", "a quantized tensor", "one without scales")
    if zeros.shape != scales.shape or scales.ndim != 1:
        msg = (
            "detail: expected as many zero points as scales, got shapes "
            f"{zeros.shape} and {scales.shape}"
        )
        raise ValueError(msg)
    scales = _core.cast(scales, "float32")
    if scales.size == 1:
        return QParams(scales[0], zeros[0], dtype)
    return QParams(scales, zeros, dtype, axis=axis)


def _numbers(value: Any, name: str, kinds: str, expected: str) -> npt.NDArray[Any]:
    """Convert an entry of `detail` to an array of numbers."""
    array: npt.NDArray[Any] = _core.plain(value, f"detail: {name}")
    if array.size and array.dtype.kind not in kinds:
        raise fail(TypeError, f"detail: {name}", expected, f"{array.dtype}")
    return array
