# SPDX-License-Identifier: Apache-2.0
"""Operators for onnx's reference evaluator. Only this module imports onnx."""

from __future__ import annotations

from typing import Any

from onnx.reference.op_run import OpRun

from pyquant.onnx import dequantize_linear, dynamic_quantize_linear, quantize_linear

__all__ = ["OPS"]

# The first opset that defines the type of the division. In models of earlier opsets, ONNX
# Runtime divides in float32.
PRECISION_OPSET = 23


def given(attributes: dict[str, Any]) -> dict[str, Any]:
    """Remove attributes that are `None`, because the node or the opset does not have these
    attributes."""
    return {name: value for name, value in attributes.items() if value is not None}


class QuantizeLinear(OpRun):
    """See onnx.quantize_linear."""

    op_domain = ""

    def _run(
        self, x: Any, y_scale: Any, y_zero_point: Any = None, **attributes: Any
    ) -> tuple[Any]:
        options = given(attributes)
        if self.run_params["opsets"].get("", PRECISION_OPSET) < PRECISION_OPSET:
            options["precision"] = "float32"
        return (quantize_linear(x, y_scale, y_zero_point, **options),)


class DequantizeLinear(OpRun):
    """See onnx.dequantize_linear."""

    op_domain = ""

    def _run(
        self, x: Any, x_scale: Any, x_zero_point: Any = None, **attributes: Any
    ) -> tuple[Any]:
        return (dequantize_linear(x, x_scale, x_zero_point, **given(attributes)),)


class DynamicQuantizeLinear(OpRun):
    """See onnx.dynamic_quantize_linear."""

    op_domain = ""

    def _run(self, x: Any) -> tuple[Any, Any, Any]:
        return dynamic_quantize_linear(x)


OPS: tuple[type, ...] = (QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear)
