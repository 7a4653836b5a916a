"""Run onnx.reference, the evaluator of the package onnx."""

import numpy as np
import onnx
from conformance.adapters._model import OPERATORS, model_of
from onnx.reference import ReferenceEvaluator

NAME, VERSION = "onnx.reference", onnx.__version__
OPS = [f"onnx.{name}" for name in OPERATORS]


def results(call):
    model, feeds, _ = model_of(call, onnx.defs.onnx_opset_version())
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None, feeds)
