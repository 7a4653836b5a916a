"""Run ONNX Runtime on CPUs."""

import onnxruntime
from conformance.adapters import by_message
from conformance.adapters._model import OPS as OPS
from conformance.adapters._model import model_of, narrowed

NAME, VERSION = "onnxruntime", onnxruntime.__version__
OPSET, IR = 25, 11  # the newest opset and IR version that ONNX Runtime accepts
NONE = "NOT_IMPLEMENTED|is invalid|supported|only supports"


def options():
    quiet = onnxruntime.SessionOptions()
    quiet.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    quiet.intra_op_num_threads, quiet.log_severity_level = 1, 4
    return quiet


def run(call):
    model, feeds, outputs = model_of(call, OPSET, widen=True)
    model.ir_version = IR
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options(), providers=["CPUExecutionProvider"]
    )
    got = session.run(None, feeds)
    return got if call.refused else narrowed(got, outputs)


def results(call):
    return by_message(call, run, NONE)
