"""Write the files of ggml's blocks in this folder, with the oracle and ported encoders.

PYTHONPATH=tests python tests/conformance/ggml.py
"""

import json
from pathlib import Path

import numpy as np
from blocks_encoders import DIRECT, LEGACY, SEARCHED, encode
from blocks_oracle import DECODERS, FORMATS

VERSION = "0.25.3"
DATE = "2026.11.23"  # version of the files; change it if a call changes

# Hexadecimal bytes at the beginning of some blocks: extreme scales, infinities and NaN.
CORNERS = {
    "Q4_0": ["0100", "0180", "ff7b"],
    "MXFP4": ["00", "01", "fd", "ff"],
    "NVFP4": ["00017f80", "ff7e8108"],
}


def array_of(values):
    """Convert an array to the JSON object that the files contain."""
    little = values.astype(values.dtype.newbyteorder("<"))
    return {
        "dtype": values.dtype.name,
        "shape": values.shape,
        "hex": little.tobytes().hex(),
    }


def scrambled(count, seed):
    """Return pseudorandom 32-bit integers."""
    h = np.arange(1, count + 1, dtype=np.uint64) * 2654435761 + seed & 0xFFFFFFFF
    for factor in (2246822519, 3266489917):
        h = (h ^ h >> 15) * factor & 0xFFFFFFFF
    return (h ^ h >> 16).astype(np.int64)


def blocks_of(name):
    """Return random blocks that decode to finite numbers. Some begin with CORNERS."""
    number, elements, size = FORMATS[name]
    blocks = (scrambled(64 * size, 1000 * number) & 255).astype(np.uint8).reshape(64, size)
    values = DECODERS[name](blocks)
    blocks = blocks[(np.abs(values) < 65504).all(-1) & values.any(-1)]
    corners = [bytes.fromhex(text) for text in CORNERS.get(name, ())]
    for block, corner in zip(blocks, corners, strict=False):
        block[: len(corner)] = list(corner)
    return blocks[: max(64 // elements, len(corners), 1)]


def decoding(name):
    blocks = blocks_of(name)
    with np.errstate(over="ignore"):
        values = DECODERS[name](blocks).astype(np.float32)
    return {
        "id": f"decode-{name}",
        "source": f"ggml {VERSION}, dequantize_row_{name.lower()}",
        "op": "ggml.decode",
        "calls": [
            {
                "args": {"type": name, "blocks": array_of(blocks.reshape(1, -1))},
                "expect": array_of(values.reshape(1, -1)),
            }
        ],
    }


def encodings():
    """Return a row of numbers of many magnitudes, and its blocks of every type."""
    h = scrambled(256, 7)
    x = np.ldexp((h & 0xFFFF) - 32768, -15 - (h >> 16 & 7)).astype(np.float32)[None]
    weights = np.ldexp(scrambled(256, 8) % 1024 + 1, -8).astype(np.float32)

    def case(form, source, names, given, **options):
        given = {"x": array_of(x), **given}
        calls = [
            {"args": {"type": name}, "expect": array_of(encode(name, x, **options))}
            for name in names
        ]
        source = f"ggml {VERSION}, {source}"
        op = {"op": "ggml.encode", "args": given}
        return {"id": f"encode{form}", "source": source, **op, "calls": calls}

    searched, given = {"search": True}, {"weights": array_of(weights)}
    weighted = (*LEGACY, *SEARCHED)
    return [
        case("", "quantize_row_*_ref", (*DIRECT, *SEARCHED), {}),
        case("-search", "quantize_iq4_nl", ["IQ4_NL"], searched, **searched),
        case("-weights", "quantize_*", weighted, given, weights=weights),
    ]


def text_of(about, cases):
    """Return the text of a file: a line for each call, each with its own id."""

    def lines(case):
        calls = enumerate(case["calls"])
        calls = [{"id": f"{case['id']}-{i}", **call} for i, call in calls]
        body = ",\n".join(f"        {json.dumps(call)}" for call in calls)
        head = json.dumps({**case, "calls": []}).removesuffix("]}")
        return f"    {head}\n{body}\n    ]}}"

    count = sum(len(case["calls"]) for case in cases)
    top = {"version": DATE, "about": about, "count": count, "flags": {}}
    head = "".join(f"  {json.dumps(key)}: {json.dumps(top[key])},\n" for key in top)
    text = ",\n".join(map(lines, cases))
    return f'{{\n{head}  "cases": [\n{text}\n  ]\n}}\n'


def files():
    """Return the names and the texts of the files."""
    about = f"Blocks of GGUF files as ggml {VERSION} "
    return {
        f"ggml-{VERSION}-decode.json": text_of(
            f"{about}decodes them", [decoding(name) for name in FORMATS]
        ),
        f"ggml-{VERSION}-encode.json": text_of(f"{about}makes them", encodings()),
    }


if __name__ == "__main__":
    for name, text in files().items():
        Path(__file__).with_name(name).write_text(text, encoding="utf-8", newline="\n")
