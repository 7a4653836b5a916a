"""Write the file of bitsandbytes in this folder. Needs PyTorch and bitsandbytes.

PYTHONPATH=tests python tests/conformance/of_bitsandbytes.py
"""

from pathlib import Path

import numpy as np
import torch
from bitsandbytes import __version__
from bitsandbytes import functional as bnb
from ggml import text_of

VERSION = "0.50.2"
SOURCE = f"bitsandbytes {VERSION} on x86-64"


def array_of(tensor):
    """Convert an array to the JSON object that the file contains."""
    memory = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    return {
        "dtype": str(tensor.dtype)[6:],
        "shape": list(tensor.shape),
        "hex": memory.tobytes().hex(),
    }


def case_of(name, *calls):
    return {"id": f"bitsandbytes-{name}", "source": SOURCE, "calls": list(calls)}


def call_of(op, expect, **args):
    return {"op": f"bitsandbytes.{op}", "args": args, "expect": expect}


def numbers(rng, count, dtype):
    x = rng.standard_normal(count) * rng.uniform(0.01, 3)
    x[:6] = [0, -0.0, 1e-3, -1e-3, 0.08, 0.03979014977812767]
    return torch.from_numpy(x.astype(np.float32)).to(getattr(torch, dtype))


def four_bit(rng):
    for quant_type in ("nf4", "fp4"):
        for dtype in ("float32", "float16", "bfloat16"):
            for count, block in ((64, 64), (320, 64), (301, 128), (77, 64)):
                x = numbers(rng, count, dtype)
                data, state = bnb.quantize_4bit(x, blocksize=block, quant_type=quant_type)
                made = [array_of(data.reshape(-1)), array_of(state.absmax)]
                how = {"block_size": block, "quant_type": quant_type}
                back = array_of(bnb.dequantize_4bit(data, state))
                yield case_of(
                    f"{quant_type}-{dtype}-{count}",
                    call_of("quantize", made, x=array_of(x), **how),
                    call_of("dequantize", back, data=made[0], absmax=made[1], **how),
                )


def nested(rng):
    x = numbers(rng, 40 * 64, "bfloat16").reshape(40, 64)
    data, state = bnb.quantize_4bit(x, compress_statistics=True, quant_type="nf4")
    stored = {"weight": data}
    for key, tensor in state.as_dict(packed=True).items():
        stored[f"weight.{key}"] = tensor
    tensors = {key: array_of(tensor) for key, tensor in stored.items()}
    back = array_of(bnb.dequantize_4bit(data, state))
    return case_of("nested", call_of("from_tensors", back, **tensors))


def rows(rng):
    x = numbers(rng, 200, "float16").reshape(5, 40)
    codes, scb, _ = bnb.int8_vectorwise_quant(x)
    made = [array_of(codes), array_of(scb)]
    back = array_of(bnb.int8_vectorwise_dequant(codes, scb))
    return case_of(
        "int8",
        call_of("quantize_int8", made, x=array_of(x)),
        call_of("dequantize_int8", back, codes=made[0], scb=made[1]),
    )


def main():
    if __version__ != VERSION:
        msg = f"bitsandbytes: expected {VERSION}, got {__version__}"
        raise SystemExit(msg)
    rng = np.random.default_rng(2026)
    cases = [*four_bit(rng), nested(rng), rows(rng)]
    about = "Weights of 4 bits and rows of int8 as bitsandbytes makes and reads them"
    path = Path(__file__).with_name(f"bitsandbytes-{VERSION}.json")
    path.write_text(text_of(about, cases), "utf-8")


if __name__ == "__main__":
    main()
