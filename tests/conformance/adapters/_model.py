"""Make a model of one operator from a call of ai.onnx or com.microsoft."""

import numpy as np
from conformance.adapters import arguments, need
from conformance.cases import dtype_of
from onnx import helper, numpy_helper

OPERATORS = {
    "quantize_linear": ("QuantizeLinear", "y"),
    "dequantize_linear": ("DequantizeLinear", "x"),
    "dynamic_quantize_linear": ("DynamicQuantizeLinear", "x"),
}
DOMAINS = {"onnx": "", "com_microsoft": "com.microsoft"}
OPS = [f"{domain}.{name}" for domain in DOMAINS for name in OPERATORS]
ATTRIBUTES = ("axis", "block_size", "output_dtype", "precision", "saturate")
# A result in a type that NumPy lacks is cast to a wider type, so that no value changes.
WIDER = {"int4": "int8", "int2": "int8", "uint4": "uint8", "uint2": "uint8"}


def type_of(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def wider(dtype):
    """Return a NumPy type that represents all values of `dtype`."""
    own = dtype.isbuiltin == 1
    return dtype if own else np.dtype(WIDER.get(dtype.name, "float32"))


def outputs_of(call, count):
    """Return the names and types of the results. If the call is an error, use float32."""
    found = call.acceptable[0] if call.acceptable else [{"dtype": "float32"}] * count
    found = found if isinstance(found, list) else [found]
    names = ("y", "y_scale", "y_zero_point")
    return [(name, dtype_of(one["dtype"])) for name, one in zip(names, found, strict=False)]


def model_of(call, opset, widen=False):
    """
    Return a model, its inputs by name, and the names and types of its results.

    With `widen`, scales and zero points are constants of the model. If NumPy lacks the type
    of a result, a Cast after the operator converts it.
    """
    domain, _, name = call.op.partition(".")
    kind, side = OPERATORS[name]
    args, alone = arguments(call), kind.startswith("Dyn")
    given = ["x"] if alone else ["x", f"{side}_scale", f"{side}_zero_point"]
    arrays = {key: args[key] for key in given if args.get(key) is not None}
    attributes = {key: v for key, v in args.items() if key not in given and v is not None}
    need(set(attributes) <= set(ATTRIBUTES), "an argument that is no attribute")
    need(all(isinstance(a, np.ndarray) for a in arrays.values()), "numbers without a type")
    fed = dict(arrays)
    if widen:
        fed = {"x": arrays["x"]} if wider(arrays["x"].dtype) == arrays["x"].dtype else {}
    outputs = outputs_of(call, 3 if alone else 1)
    made = [output for output, _ in outputs]
    node = helper.make_node(kind, [*arrays], made, domain=DOMAINS[domain], **attributes)
    nodes, last = [node], dict(outputs)
    for output, dtype in outputs:
        if widen and wider(dtype) != dtype:
            to = type_of(wider(dtype))
            nodes.append(helper.make_node("Cast", [output], ["wide"], to=to))
            last = {"wide": wider(dtype)}
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        call.id,
        [info(key, type_of(a.dtype), a.shape) for key, a in fed.items()],
        [helper.make_empty_tensor_value_info(key) for key in last]
        if call.refused
        else [info(key, type_of(dtype), None) for key, dtype in last.items()],
        [numpy_helper.from_array(a, key) for key, a in arrays.items() if key not in fed],
    )
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(DOMAINS[domain], 1)] if DOMAINS[domain] else []
    return helper.make_model(graph, opset_imports=opsets), fed, outputs


def narrowed(results, outputs):
    """Convert the results of a widened model back to the types of the operator."""
    return [np.asarray(r).astype(d) for r, (_, d) in zip(results, outputs, strict=True)]
