"""Write the files of torchao and compressed-tensors in this folder. Needs both packages.

python tests/conformance/torch_blocks.py
"""

from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from compressed_tensors.entrypoints.convert import FP8BlockDequantizer
from compressed_tensors.quantization import preset_name_to_scheme
from compressed_tensors.quantization.lifecycle import forward
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from ggml import array_of, scrambled, text_of
from torchao.prototype.mx_formats import mx_tensor, nvfp4_tensor
from torchao.prototype.mx_formats.constants import DTYPE_FP6_E2M3, DTYPE_FP6_E3M2

KINDS = {
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "float6_e2m3fn": DTYPE_FP6_E2M3,
    "float6_e3m2fn": DTYPE_FP6_E3M2,
    "float4_e2m1fn": torch.float4_e2m1fn_x2,
}


def numbers(rows, spread):
    """Return blocks of many magnitudes. Elements have few mantissa bits, to cause ties."""
    h = scrambled(rows * 64, 3).reshape(rows, 64)
    exponents = scrambled(rows * 4, 4).reshape(rows, 4).repeat(16, 1) % (2 * spread)
    x = np.ldexp((h & 0x3FF) - 512, exponents - spread - (h >> 16 & 3) - 7)
    x[0, :32] = 0
    return x.astype(np.float32)


def typed(codes, name):
    """Convert codes to the JSON object that the files contain."""
    codes = np.ascontiguousarray(codes, np.uint8)
    return {"dtype": name, "shape": codes.shape, "hex": codes.tobytes().hex()}


def bytes_of(tensor):
    return tensor.contiguous().view(torch.uint8).numpy()


def halves(packed):
    """Unpack 4-bit elements from bytes. The low bits of a byte are the first element."""
    return np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1)


def by_mx(source):
    x = numbers(4, 40)
    there, back = [], []
    for name, kind in KINDS.items():
        for mode in mx_tensor.ScaleCalculationMode:
            scales, codes = mx_tensor.to_mx(torch.from_numpy(x), kind, 32, mode)
            elements = bytes_of(codes)
            if name == "float4_e2m1fn":
                elements = halves(elements)
            made = [typed(elements, name), typed(bytes_of(scales), "float8_e8m0fnu")]
            args = {"dtype": name, "rule": mode.name.lower()}
            there.append({"args": args, "expect": made})
        y = mx_tensor.to_dtype(codes, scales, kind, 32, torch.float32)
        args = {"q": made[0], "scale": made[1]}
        back.append({"args": args, "expect": array_of(y.numpy())})
    source = {"source": f"{source}, prototype.mx_formats.mx_tensor"}
    given = {"args": {"x": array_of(x)}}
    return [
        {"id": "to-mx", **source, "op": "mx.quantize", **given, "calls": there},
        {"id": "from-mx", **source, "op": "mx.dequantize", "calls": back},
    ]


def by_nvfp4(source):
    x = numbers(4, 9)
    calls = []
    t = nvfp4_tensor.per_tensor_amax_to_scale(torch.tensor(abs(x).max()))
    for scale in (t, torch.tensor(1.0)):
        given = None if scale == 1 else scale
        scales, codes = nvfp4_tensor.nvfp4_quantize(torch.from_numpy(x), 16, given)
        single = array_of(scale.numpy())
        made = [
            typed(halves(codes.numpy()), "float4_e2m1fn"),
            typed(bytes_of(scales), "float8_e4m3fn"),
            single,
        ]
        calls.append({"args": {"x": array_of(x), "tensor_scale": single}, "expect": made})
    calls.append({"args": {"x": array_of(x)}, "expect": calls[0]["expect"]})
    y = nvfp4_tensor.NVFP4Tensor.to_nvfp4(torch.from_numpy(x), 16, t).dequantize()
    args = dict(zip(("q", "scale", "tensor_scale"), calls[0]["expect"], strict=True))
    args["like"] = "torchao"
    back = [{"args": args, "expect": array_of(y.numpy())}]
    source = {"source": f"{source}, prototype.mx_formats.nvfp4_tensor"}
    return [
        {"id": "to-nvfp4", **source, "op": "nvfp4.quantize", "calls": calls},
        {"id": "from-nvfp4", **source, "op": "nvfp4.dequantize", "calls": back},
    ]


def by_compressed_tensors(source):
    x = numbers(4, 9)
    x[x == 0] = 0  # the package converts -0 to 0
    given = torch.from_numpy(x)
    args = preset_name_to_scheme("NVFP4", ["Linear"]).weights
    t = generate_gparam(given.min(), given.max())
    blocks = given.view(4, 4, 16)
    scales, zero = calculate_qparams(blocks.amin(-1), blocks.amax(-1), args, t)
    codes = forward.quantize(given, scales, zero, args, global_scale=t)
    y = forward.dequantize(codes, scales, zero, args, global_scale=t, dtype=given.dtype)
    levels = np.float32([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    elements = np.searchsorted(levels, abs(codes.numpy()))
    elements |= np.signbit(codes.numpy()) << 3
    single = array_of(t.numpy().reshape(()))
    made = [
        typed(elements, "float4_e2m1fn"),
        typed(bytes_of(scales.to(torch.float8_e4m3fn)), "float8_e4m3fn"),
        single,
    ]
    like = {"like": "compressed_tensors"}
    there = [{"args": {"x": array_of(x), **like}, "expect": made}]
    args = dict(zip(("q", "scale", "tensor_scale"), made, strict=True))
    back = [{"args": {**args, **like}, "expect": array_of(y.numpy())}]
    return [
        {"id": "to-nvfp4", "source": source, "op": "nvfp4.quantize", "calls": there},
        {"id": "from-nvfp4", "source": source, "op": "nvfp4.dequantize", "calls": back},
    ]


def by_float8_blocks(source):
    """Yield arrays in blocks of 16 by 16, with shorter blocks at the edges."""
    weight = scrambled(20 * 43, 5).reshape(20, 43) & 0xFF
    weight = np.where(weight & 0x7F == 0x7F, 0, weight).astype(np.uint8)
    scale = np.ldexp(scrambled(6, 6).reshape(2, 3) % 999 + 1, -14).astype(np.float32)
    calls = []
    for dtype in (torch.float32, torch.bfloat16):
        made = FP8BlockDequantizer(weight_block_size=(16, 16), dtype=dtype)
        y = made._create_dequantized_weight(
            torch.from_numpy(weight).view(torch.float8_e4m3fn), torch.from_numpy(scale)
        )
        name = str(dtype).removeprefix("torch.")
        expect = typed(bytes_of(y), name)
        expect["shape"] = weight.shape
        calls.append({"args": {"dtype": name}, "expect": expect})
    args = {
        "q": typed(weight, "float8_e4m3fn"),
        "scale": array_of(scale),
        "block_size": {"tuple": [16, 16]},
    }
    return [
        {
            "id": "from-float8-blocks",
            "source": f"{source}, FP8BlockDequantizer",
            "op": "dequantize",
            "args": args,
            "calls": calls,
        }
    ]


def files():
    """Return the names and the texts of the files."""
    release = version("torchao")
    source = f"torchao {release}"
    yield (
        f"torchao-{release}.json",
        text_of(
            f"MX and NVFP4 blocks as {source} makes them",
            [*by_mx(source), *by_nvfp4(source)],
        ),
    )
    release = version("compressed-tensors")
    source = f"compressed-tensors {release}"
    yield (
        f"compressed-tensors-{release}.json",
        text_of(
            f"Blocks as {source} makes them, and numbers of them",
            [*by_compressed_tensors(source), *by_float8_blocks(source)],
        ),
    )


if __name__ == "__main__":
    for name, text in files():
        Path(__file__).with_name(name).write_text(text, encoding="utf-8")
