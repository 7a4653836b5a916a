# SPDX-License-Identifier: Apache-2.0
"""The forms, which are the kinds of calls that the benchmark measures."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.dtypes import CODES, PACKABLE, REALS, SHORT

SIZES = (1, 1 << 10, 1 << 16, 1 << 20, 1 << 24)
COMPACT_SIZE = 1 << 16
DEFAULT_GROUPS = ("design", "granularities", "layouts")

# Types by their names in names of forms.
TYPES = {short: name for name, short in SHORT.items()}
CF_FILL = -(1 << 15)
MODES = (
    "half_even",
    "half_away",
    "half_toward_zero",
    "half_up",
    "half_down",
    "away",
    "trunc",
    "ceil",
    "floor",
    "half_odd",
    "stochastic",
)


class Form(NamedTuple):
    """
    A form is one kind of call. The file `arrays.py` makes the arrays of a form.

    `granularity` is a key of arrays.GRANULARITIES, and `layout` is a key of arrays.LAYOUTS.
    `through` is "function" or a key of arrays.CALLS. If each scale has a zero point,
    `zeros` is the type of the zero points. If `fresh` is true, each call returns a new
    array. If `offset` is true, each scale has a real offset. If `repeats_offset` is true,
    all rows have the offsets of the first row. If `inverse` is true, `quantize` multiplies
    by the scales. `fill` is the code of NaN, for data with some NaN. If `out_of_range` is
    "raise", no element of the data is out of range. `tiny` is the share of elements with a
    magnitude near arrays.TINY.
    """

    name: str
    groups: tuple[str, ...]
    source: str
    target: str
    granularity: str = "tensor"
    zero_point: int = 0
    zeros: str | None = None
    rounding: str = "half_even"
    precision: str | None = None
    packed: bool = False
    layout: str = "plain"
    fresh: bool = False
    threads: int = 1
    offset: bool = False
    repeats_offset: bool = False
    inverse: bool = False
    fill: int | None = None
    out_of_range: str = "saturate"
    tiny: float = 0
    through: str = "function"
    sizes: tuple[int, ...] = SIZES

    @property
    def quantizes(self) -> bool:
        """True if the form converts real numbers to codes."""
        return self.source in REALS

    @property
    def code(self) -> str:
        """The quantized type."""
        return self.target if self.quantizes else self.source

    @property
    def real(self) -> str:
        """The type of the real numbers."""
        return self.source if self.quantizes else self.target

    @property
    def computed(self) -> str:
        """The type of arithmetic with which NumPy gets the bits of pyquant."""
        return "float64" if self.real == "float64" else "float32"

    @property
    def affine(self) -> bool:
        """True if the form has options that most rivals lack."""
        more = self.offset or self.inverse or self.fill is not None
        return more or self.out_of_range != "saturate"

    @property
    def usual(self) -> bool:
        """True for half to even and one thread in a function call, as in most rivals."""
        rounding = self.rounding == "half_even" and self.precision is None
        called = self.threads == 1 and self.through == "function"
        return rounding and called and not self.affine

    @property
    def plain(self) -> bool:
        """True for a usual form with contiguous arrays."""
        return self.usual and self.layout == "plain"


def _form(groups: str, name: str, granularity: str = "tensor", **more: object) -> Form:
    """Return a form. The name of the form begins with its types."""
    source, target = (TYPES[short] for short in name.split("-")[:2])
    return Form(name, tuple(groups.split()), source, target, granularity, **more)  # type: ignore[arg-type]


def _pair(source: str, target: str) -> Form:
    """Return a form of the group `pairs`: one scale, packed if the type allows it."""
    code = target if source in REALS else source
    granularity = "unit" if code.startswith("float") else "tensor"
    name = f"{SHORT[source]}-{SHORT[target]}"
    packed = code in PACKABLE
    return Form(name, ("pairs",), source, target, granularity, packed=packed)


_HAND_MADE = [
    _form("design compact chart", "f32-i8"),
    _form("design", "f32-u8"),
    _form("design compact", "i8-f32"),
    _form("design", "u8-f32"),
    _form("design granularities compact", "f32-i8-axis", "axis"),
    _form("design granularities compact", "i8-f32-axis", "axis"),
    _form("design granularities compact", "f32-i8-block32", "block32"),
    _form("design granularities compact", "i8-f32-block32", "block32"),
    _form("design granularities compact", "f32-i8-plane49", "plane7"),
    _form("granularities chart", "f32-i8-first", "first"),
    _form("design compact chart", "f16-i8"),
    _form("design compact", "i8-f16"),
    _form("design compact", "f32-e4m3", "unit"),
    _form("design compact", "e4m3-f32", "unit"),
    _form("design", "f32-e5m2", "unit"),
    _form("design", "e5m2-f32", "unit"),
    _form("design compact", "f32-i4-block32", "block32"),
    _form("design compact chart", "i4-f32-block32", "block32", packed=True),
    _form("design", "f4-f32-block32", "block32", packed=True),
    _form("design calls compact", "f32-i8-one", sizes=(1,)),
    _form("design calls", "f32-i8-one-qparams", through="qparams", sizes=(1,)),
    _form("design calls", "i8-f32-one", sizes=(1,)),
    _form("calls", "f32-i8-onnx", through="onnx", sizes=(1, 1 << 10, 1 << 16)),
    _form("calls", "i8-f32-onnx", through="onnx", sizes=(1, 1 << 10, 1 << 16)),
    _form("design calls", "f32-i8-fresh", fresh=True, sizes=(1 << 24,)),
    _form("design calls", "i8-f32-fresh", fresh=True, sizes=(1 << 24,)),
    _form("design calls", "f32-i8-threads2", threads=2, sizes=(1 << 25,)),
    _form("design calls", "i8-f32-threads2", threads=2, sizes=(1 << 25,)),
    _form("granularities", "i8-f32-first", "first"),
    _form("granularities", "f32-u8-zero", zero_point=128),
    _form("granularities", "u8-f32-zero", zero_point=128),
    _form("granularities", "f32-e4m3-axis", "axis"),
    _form("granularities", "f32-e4m3-block32", "block32"),
    _form("granularities", "e4m3-f32-block32", "block32"),
    _form("granularities", "f32-i4-block32-packed", "block32", packed=True),
    _form("granularities", "f32-u8-axis-zeros", "axis", zeros="int32"),
    _form("granularities", "u8-f32-axis-zeros", "axis", zeros="int32"),
    _form("granularities", "f32-u8-block32-zeros", "block32", zeros="int32"),
    _form("granularities", "u8-f32-block32-zeros", "block32", zeros="int32"),
    _form("choosing", "f32-i8-choose", through="choose"),
    _form("choosing", "f32-i8-choose-first", "first", through="choose"),
    _form("choosing", "f32-i8-choose-axis", "axis", through="choose"),
    _form("choosing compact", "f32-i8-choose-block32", "block32", through="choose"),
    _form("choosing", "f32-u8-choose-block32", "block32", through="choose"),
    _form("choosing", "f16-i8-choose-block32", "block32", through="choose"),
    _form("choosing", "f64-i8-choose-block32", "block32", through="choose"),
    _form("choosing", "f32-i8-choose-ragged32", "ragged32", through="choose"),
    _form("affine", "i16-f32-cf", offset=True, fill=CF_FILL),
    _form("affine", "f32-i16-cf", offset=True, fill=CF_FILL),
    _form("affine", "i16-f32-inverse", offset=True, inverse=True),
    _form("affine", "f32-i16-inverse", offset=True, inverse=True),
    _form("affine", "i8-f32-each-offset", "each", offset=True),
    _form("affine", "i8-f32-each-row-offset", "each", offset=True, repeats_offset=True),
    _form("affine", "f32-i8-each-offset", "each", offset=True),
    _form("affine", "f32-i8-each-row-offset", "each", offset=True, repeats_offset=True),
    _form("affine", "u8-f32-image", "channels", offset=True, layout="from_pixels"),
    _form("affine", "f32-u8-image", "channels", offset=True, layout="to_pixels"),
    _form("affine", "f32-i8"),
    _form("affine", "f32-i8-raise", out_of_range="raise"),
    _form("affine", "f32-i8-wrap", out_of_range="wrap"),
    _form("affine", "f32-i8-wrap-floor", out_of_range="wrap", rounding="floor"),
    _form("affine", "f32-i8-wrap-half-away", out_of_range="wrap", rounding="half_away"),
    _form("affine", "f16-i8-raise", out_of_range="raise"),
    _form("affine", "f64-i8"),
    _form("affine", "f64-i8-raise", out_of_range="raise"),
    _form("affine", "f32-e4m3-raise", out_of_range="raise"),
    _form("affine", "f32-i8-axis", "axis"),
    _form("affine", "f32-i8-axis-raise", "axis", out_of_range="raise"),
    _form("affine", "f32-i8-block32", "block32"),
    _form("affine", "f32-i8-block32-raise", "block32", out_of_range="raise"),
    _form("affine", "f32-i8-cast", "unit"),
    _form("affine", "f32-i8-cast-raise", "unit", out_of_range="raise"),
    _form("affine", "f32-i16-cast-raise", "unit", out_of_range="raise"),
    _form("affine", "f32-i8-embeddings", "features", through="qparams"),
    _form("tiny compact", "f32-i8-tiny", tiny=1),
    _form("tiny", "f32-i8-tiny1", tiny=0.01),
    _form("tiny", "f32-i8-axis-tiny", "axis", tiny=1),
    _form("tiny", "f32-i8-block32-tiny", "block32", tiny=1),
    _form("tiny", "f32-i8-block16-tiny", "block16", tiny=1),
    _form("tiny", "f32-e4m3-tiny", "unit", tiny=1),
    _form("tiny", "f64-i8-tiny", tiny=1),
    _form("tiny", "f64-e4m3-tiny", "unit", tiny=1),
    _form("layouts compact", "f32-i8-in2", layout="in2"),
    _form("layouts", "f32-i8-out2", layout="out2"),
    _form("layouts compact", "f32-i8-transposed", layout="transposed"),
    _form("layouts", "i8-f32-in2", layout="in2"),
    _form("layouts", "i8-f32-out2", layout="out2"),
    _form("layouts", "i8-f32-transposed", layout="transposed"),
    _form("layouts", "u8-f32-pixels", "channels", layout="from_pixels"),
    _form("layouts", "u8-f32-reversed", "channels", layout="from_reversed"),
    _form("layouts", "f32-i8-line16", layout="line16"),
    _form("layouts", "i8-f32-line16", layout="line16"),
    _form("layouts", "f32-i8-records32", "rows32", layout="records"),
    _form("layouts", "i8-f32-records32", "rows32", layout="records"),
    _form("modes", "f16-i8-half", precision="float16"),
    _form("parameters", "f32-i8-stochastic", rounding="stochastic"),
    _form("parameters", "f16-i8-stochastic", rounding="stochastic"),
    _form("parameters", "f64-i8-stochastic", rounding="stochastic"),
    _form("parameters", "f32-e4m3-stochastic", rounding="stochastic"),
    _form("parameters", "f32-i8-axis-stochastic", "axis", rounding="stochastic"),
    _form("pairs compact", "bf16-i8"),
    _form("pairs compact", "i8-bf16"),
]
_GRANULARITIES = {
    "block16": "block16",
    "block32": "block32",
    "block64": "block64",
    "block128": "block128",
    "plane49": "plane7",
    "plane196": "plane14",
    "tile128": "tile128",
    "ragged32": "ragged32",
}


def _table() -> dict[str, Form]:
    """Return all forms by name. A form of two lists is in the groups of both lists."""
    made = list(_HAND_MADE)
    for pair in ("f32-i8", "i8-f32"):
        for suffix, granularity in _GRANULARITIES.items():
            made.append(_form("granularities", f"{pair}-{suffix}", granularity))
    for real in ("f16", "bf16"):
        for block in ("block32", "block128"):
            name = f"i4-{real}-{block}"
            made.append(_form("granularities", name, block, packed=True))
    for mode in MODES[1:]:
        name = "f32-i8-" + mode.replace("_", "-")
        made.append(_form("modes", name, rounding=mode))
    made.append(_form("modes", "f32-i8"))
    for pair in ("f32-i8", "f32-i16"):  # the forms of cast_value, a codec of zarr
        for mode in ("half_even", "half_away", "trunc", "ceil", "floor"):
            name = f"{pair}-cast-" + mode.replace("_", "-")
            made.append(_form("casts", name, "unit", rounding=mode))
    for real in REALS:
        made += [_pair(real, code) for code in CODES]
        made += [_pair(code, real) for code in CODES]
    table: dict[str, Form] = {}
    for form in made:
        known = table.setdefault(form.name, form)
        groups = tuple(dict.fromkeys(known.groups + form.groups))
        table[form.name] = known._replace(groups=groups)
    return table


FORMS = _table()
