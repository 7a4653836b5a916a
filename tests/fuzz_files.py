"""Open weight files with wrong headers and wrong bytes, and decode their tensors.

    python -P tests/fuzz_files.py [SEED [COUNT [FIRST]]]

makes COUNT files from a seed and counts the results of each kind. FIRST is the index of
the first file. Some header fields of a file are wrong, and some bytes change at random.

A file must open and decode, or raise a ValueError. The error is one line and begins with
the path. Reading takes at most one second and little memory. An index, or the first of
several files, may raise an OSError about missing files. test_files.py makes some files.
"""

import collections
import contextlib
import json
import os
import random
import struct
import sys
import tempfile
import time

import pyquant as pq
from pyquant.weights import _gguf, _safetensors
from pyquant.weights._elements import bits_of

try:
    import resource
except ImportError:  # Windows
    resource = None

SECONDS = 1  # Maximum processor time for a file, in seconds.
GROWTH = 64 << 20  # Maximum growth of resident memory, in bytes.

WORDS = (0, 1, 2, 7, 8, 9, 31, 255, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
TOKENS = (
    *(b"{", b"}", b"[", b"]", b",", b'"', b"\\", b":", b"9999999999", b"-", b"e", b" "),
    *(b"\xff", b"\\ud800", b"1e9", b"null", b'{"a":' * 50, b"[" * 3000, b'"a":1,'),
)
NAMES = ("", "a", "b", "\0", "\n", "..", "é", "\ud800", "x" * 300, "__metadata__")


class Liar:
    """Source of random header values. A few values are wrong."""

    def __init__(self, rng, order="<"):
        self.rng, self.order = rng, order
        self.rate = rng.choice((0, 0.01, 0.03, 0.1))

    def lies(self):
        return self.rng.random() < self.rate

    def number(self, value, bits=64):
        if not self.lies():
            return value
        near = (value + 1, value - 1, 2 * value, value ^ 1 << self.rng.randrange(bits))
        other = self.rng.choice((*WORDS, *near, self.rng.getrandbits(bits)))
        return other % 2**bits

    def word(self, value):
        return struct.pack(self.order + "I", self.number(value, 32))

    def long(self, value):
        return struct.pack(self.order + "Q", self.number(value))

    def name(self, value):
        return self.rng.choice(NAMES) if self.lies() else value

    def text(self, value):
        made = self.name(value).encode("utf-8", "surrogatepass")
        return self.long(len(made)) + made

    def some(self, items):
        """Return the items; at random, repeat one item or omit one."""
        items = list(items)
        if items and self.lies():
            items.insert(self.rng.randrange(len(items)), self.rng.choice(items))
        if items and self.lies():
            del items[self.rng.randrange(len(items))]
        return items


# ---- GGUF ----


def value_of(liar, kind, depth=0):
    """Return the bytes of a metadata value."""
    rng = liar.rng
    if kind == _gguf._STRING:
        return liar.text(rng.choice(NAMES[:7]))
    if kind != _gguf._ARRAY:
        size = struct.calcsize("=" + _gguf._LETTERS[kind])
        return rng.randbytes(size) if kind != 7 else b"\1"
    inner = 9 if liar.lies() else rng.choice((0, 5, 6, 7, 8, 8, 9 if depth < 3 else 12))
    count = rng.randrange(4)
    values = [value_of(liar, inner, depth + 1) for _ in range(count)] if depth < 12 else []
    return liar.word(inner) + liar.long(len(values)) + b"".join(values)


def gguf(rng, said=(), mark="t"):
    """Return a GGUF file with the given metadata and random metadata."""
    liar = Liar(rng, rng.choice("<<<>"))
    align = rng.choice((32, 32, 16, 1, 64))
    keys = [("general.alignment", 4, liar.word(align))]
    keys += [(name, 5, liar.word(value)) for name, value in said]
    for i in range(rng.randrange(4)):
        kind = rng.choice((*_gguf._LETTERS, 8, 9, 9))
        keys.append((f"k{i}", kind, value_of(liar, kind)))
    rows, data = [], b""
    for i in range(rng.randrange(4)):
        kind = rng.choice((*_gguf._BY_ID, 99))
        _, block, nbytes, _ = _gguf._BY_ID.get(kind, ("", 1, 3, None))
        outer = [rng.randrange(4) for _ in range(rng.randrange(4))]
        dims = (block * rng.randrange(3), *outer)
        count = nbytes * (dims[0] // block)
        for extent in outer:
            count *= extent
        rows.append((f"{mark}{i}", dims, kind, len(data)))
        data += rng.randbytes(count) + bytes(-count % align)
    keys, rows = liar.some(keys), liar.some(rows)
    text = b"GGUF" + liar.word(3) + liar.long(len(rows)) + liar.long(len(keys))
    for name, kind, value in keys:
        text += liar.text(name) + liar.word(kind) + value
    for name, dims, kind, at in rows:
        text += liar.text(name) + liar.word(len(dims)) + b"".join(map(liar.long, dims))
        text += liar.word(kind) + liar.long(at)
    return text + bytes(-len(text) % align) + data


def split_gguf(rng, folder):
    """Write a split GGUF file, perhaps with wrong counts, and return the first path."""
    count = rng.choice((1, 2, 2, 3))
    for i in range(count):
        said = (("split.no", i), ("split.count", count))
        made = damaged(rng, gguf(rng, said, f"{i}t"))
        write(f"{folder}/s-{i + 1:05}-of-{count:05}.gguf", made)
    return f"{folder}/s-00001-of-{count:05}.gguf"


# ---- safetensors ----


def any_json(liar, value):
    """Return the JSON text of a value, or at random another JSON text."""
    if not liar.lies():
        return json.dumps(value)
    others = (None, True, -1, 1.5, [], {}, [value], {"a": value}, "x", 2**64, [2**63] * 2)
    other = json.dumps(liar.rng.choice(others))
    return liar.rng.choice((other, other, "[" * 2000, '{"a":' * 2000))


def safetensors(rng, mark="t", count=None):
    """Return a safetensors file."""
    liar = Liar(rng)
    entries, data = [], b""
    for i in range(rng.randrange(5) if count is None else count):
        format = rng.choice((*_safetensors.FORMATS, "X9"))
        bits = bits_of(_safetensors.FORMATS[format]) if format != "X9" else 5
        shape = [rng.randrange(5) for _ in range(rng.randrange(4))] + [8]
        for extent in shape:
            bits *= extent
        shape = [liar.number(n) for n in shape]
        ends = [liar.number(len(data)), liar.number(len(data) + bits // 8)]
        fields = {"dtype": format, "shape": shape, "data_offsets": ends}
        parts = liar.some(f'"{k}":{any_json(liar, v)}' for k, v in fields.items())
        rng.shuffle(parts)
        entries.append(f"{json.dumps(liar.name(f'{mark}{i}'))}:{{{','.join(parts)}}}")
        data += rng.randbytes(bits // 8)
    records = {f"t{i}": rng.choice(RECORDS) for i in range(rng.randrange(3))}
    said = {"a": liar.name("é"), "pyquant": any_json(liar, records)}
    if rng.random() < 0.5:
        entries.append(f'"__metadata__":{any_json(liar, said)}')
    text = f"{{{','.join(liar.some(entries))}}}".encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    return liar.long(len(text)) + text + data


RECORDS = (
    {"type": "int4"},
    {"type": "float6_e2m3fn"},
    {"packed": ["int4", [2, 8], "onnx", None, 4]},
    {"packed": ["uint4", [8, 8], "words", 0, 4]},
    {"qparams": ["int8", None, None, None, None]},
)


def index(rng, folder):
    """Write an index with files beside it, and return its path."""
    liar = Liar(rng)
    places = {}
    for i in range(rng.randrange(1, 3)):
        name = f"m{i}.safetensors"
        count = rng.randrange(4)
        made = safetensors(rng, f"{i}t", count)
        write(f"{folder}/{name}", damaged(rng, made) if rng.random() < 0.3 else made)
        for k in range(count):
            places[f"{i}t{k}"] = rng.choice(FILES) if liar.lies() else name
    pairs = [f"{json.dumps(k)}:{any_json(liar, v)}" for k, v in places.items()]
    mapped = f"{{{','.join(liar.some(pairs))}}}"
    parts = liar.some((f'"weight_map":{mapped}', f'"metadata":{any_json(liar, {"a": 1})}'))
    path = f"{folder}/model.safetensors.index.json"
    write(path, damaged(rng, f"{{{','.join(parts)}}}".encode("utf-8", "surrogatepass")))
    return path


FILES = (
    *("", ".", "..", "../m0.safetensors", "s/m0.safetensors", "/m0.safetensors"),
    *("m9.safetensors", "\0", "\ud800", "x" * 999),
)

# ---- files ----


def damaged(rng, data):
    """Return the data, in half of the calls with random changes."""
    data = bytearray(data)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 8))):
        at = rng.randrange(len(data) + 1)
        way = rng.randrange(6)
        if way == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            data[at : at + 8] = struct.pack(rng.choice("<>") + "Q", rng.choice(WORDS))
        elif way == 2:
            data[at : at + rng.choice((0, 1))] = rng.choice(TOKENS)
        elif way == 3:
            del data[at : at + rng.choice((1, 4, 8, 40))]
        elif way == 4:
            end = rng.randrange(at, min(at + 60, len(data)) + 1)
            data[at:at] = data[at:end]
        elif rng.random() < 0.3:
            del data[at:]
    return bytes(data)


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def make(rng, folder):
    """Write a file and return its path."""
    kind = rng.randrange(8)
    if kind == 0:
        return index(rng, folder)
    if kind == 1:
        return split_gguf(rng, folder)
    path = f"{folder}/x.gguf" if kind < 5 else f"{folder}/x.safetensors"
    write(path, damaged(rng, gguf(rng) if kind < 5 else safetensors(rng)))
    return path


@contextlib.contextmanager
def said(*beginnings):
    """Ignore a TypeError or ValueError if the message begins with one of `beginnings`.

    Ignore every KeyError and ImportError.
    """
    try:
        yield
    except (KeyError, ImportError):
        pass
    except (TypeError, ValueError) as error:
        if not str(error).startswith(beginnings):
            raise AssertionError(f"{type(error).__name__}: {error}") from error


def use(rng, path):
    """Read the metadata and all tensors of a file."""
    with pq.open_weights(path) as f:
        for key in f.metadata:
            repr(f.metadata[key])
        for name, w in f.items():
            with said("format: "):
                raw = w.raw
                assert (raw.data if hasattr(raw, "repack") else raw).nbytes == w.nbytes
            repr(w)
            rows = slice(rng.randrange(3), rng.randrange(5))
            with said("format: "):
                assert w.dequantize().shape == w.shape
            with said("format: ", "rows: ", "dtype: "):
                w.dequantize(rows, dtype="float64")
            with said("format: ", f"{path}: expected metadata of pyquant"):
                f.read(name)


def one_file(rng, folder):
    """Make and read a file. Return its suffix and "opened", "refused" or "missing"."""
    path = make(rng, folder)
    began = time.process_time()
    try:
        use(rng, path)
    except ValueError as error:
        text, answer = str(error), "refused"
        if not text.startswith(folder) or "\n" in text or len(text) > 1000:
            raise AssertionError(f"{type(error).__name__}: {text}") from error
    except OSError as error:
        if not path.endswith(".json") and "-of-" not in path:
            raise AssertionError(f"OSError: {error}") from error
        answer = "missing"
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from error
    else:
        answer = "opened"
    seconds = time.process_time() - began
    if seconds > SECONDS:
        raise AssertionError(f"{answer} after {seconds} s")
    return f"{path.rpartition('.')[2]} {answer}"


def resident():
    """Return the largest resident memory of the process in bytes."""
    if resource is None:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def run(seed, count, folder, first=0):
    """Make files, each with its own seed. Return the number of each result."""
    results = collections.Counter()
    before = None
    for i in range(first, first + count):
        try:
            results[one_file(random.Random(f"{seed}:{i}"), folder)] += 1
            if i == first + 50:  # by now, all modules are loaded
                before = resident()
            if before is not None and resident() - before > GROWTH:
                raise AssertionError(f"{(resident() - before) >> 20} MiB more are resident")
        except AssertionError as error:
            error.add_note(f"file {i} of seed {seed}")
            raise
    return results


def main(seed="1", count="10000", first="0"):
    with tempfile.TemporaryDirectory() as folder:
        results = run(int(seed), int(count), os.path.realpath(folder), int(first))
    for name, n in sorted(results.items()):
        print(f"{n:9} {name}")
    print(f"{results.total():9} files of seed {seed}, no fault")


if __name__ == "__main__":
    main(*sys.argv[1:])
