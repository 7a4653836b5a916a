"""Run OpenVINO's reader of ONNX models and its CPU plugin."""

import numpy as np
import openvino
from conformance.adapters import by_message
from conformance.adapters._model import OPS as OPS
from conformance.adapters._model import model_of, narrowed

NAME, VERSION = "openvino", openvino.__version__.split("-")[0]
OPSET = 25
NONE = "[Nn]ot supported|[Uu]nsupported|OpConversionFailure|not implemented|No conversion"
OPTIONS = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}


def run(call):
    model, feeds, outputs = model_of(call, OPSET, widen=True)
    core = openvino.Core()
    compiled = core.compile_model(
        core.read_model(model.SerializeToString(), b""), "CPU", OPTIONS
    )
    got = [np.array(value) for value in compiled(feeds).values()]
    return got if call.refused else narrowed(got, outputs)


def results(call):
    return by_message(call, run, NONE)
