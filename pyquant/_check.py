# SPDX-License-Identifier: Apache-2.0
"""Check arguments, and write the messages of errors: ``name: expected ..., got ...``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.exceptions import AxisError

from pyquant import _core, dtypes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

__all__ = ["Immutable", "array", "choice", "fail", "flag", "integer", "number", "out"]
__all__ += ["real_dtype", "restoring"]

# ---- texts of messages ----

_FLAT = (str, bytes, int, float, complex, type(None), np.generic)
_MOST_BITS = 1024  # most bits of an integer to print; Python prints at most 4300 digits
_MOST_CHARACTERS = 200


def shown(value: object) -> str:
    """Describe a value.

    A container of containers is replaced by a description, because Python cannot print deep
    nesting.
    """
    if isinstance(value, int) and int.bit_length(value) > _MOST_BITS:
        return f"an integer of {int.bit_length(value)} bits"
    if isinstance(value, (tuple, list)):
        if not all(isinstance(one, _FLAT) for one in value):
            return f"a {type(value).__name__} of sequences"
        text = ", ".join(map(shown, value))
        if isinstance(value, tuple):
            text = f"({text},)" if len(value) == 1 else f"({text})"
        else:
            text = f"[{text}]"
    elif isinstance(value, np.ndarray):
        text = f"an array of {value.dtype}" if value.dtype.hasobject else repr(value)
    elif isinstance(value, _FLAT):
        text = repr(value)
    else:
        return f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def listed(names: Iterable[str]) -> str:
    """Join names for a sentence: a, b or c."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def faulty(count: int) -> str:
    """Return "1 faulty element" or "n faulty elements" for an error message."""
    return "1 faulty element" if count == 1 else f"{count} faulty elements"


def axis_error(axis: int, ndim: int, name: str | None = None) -> AxisError:
    """Return NumPy's error about an axis. NumPy's own message fails for integers with many
    digits."""
    if int.bit_length(axis) <= _MOST_BITS:
        return AxisError(axis, ndim, name)
    said = f"axis {shown(axis)} is out of bounds for array of dimension {ndim}"
    return AxisError(said if name is None else f"{name}: {said}")


# ---- checks ----

REALS = ("float32", "float64", "float16", "bfloat16")


class Immutable:
    """A base class without assignable attributes. Subclasses call `object.__setattr__` to
    set attributes."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        """Raise AttributeError, because the object is immutable."""
        kind = type(self).__name__
        raise AttributeError(f"{name}: expected no assignment, {kind} is immutable")

    def __delattr__(self, name: str) -> None:
        """Raise AttributeError, because the object is immutable."""
        kind = type(self).__name__
        raise AttributeError(f"{name}: expected no deletion, {kind} is immutable")


def fail(
    kind: type[Exception], name: str, expected: str, got: object, known: Iterable[str] = ()
) -> Exception:
    """Return the error about an argument.

    `got` is a text, the type of a wrong object, or an object to show. If `known` has names,
    `got` is a wrong name, and the error proposes similar names.
    """
    if known and isinstance(got, str):
        from pyquant._refused import hint

        got = f"{shown(str.__str__(got))}{hint(got, known)}"
    elif isinstance(got, type):
        got = got.__name__
    text = got if isinstance(got, str) else shown(got)
    return kind(f"{name}: expected {expected}, got {text}")


def integer(
    value: object, name: str, least: int | None = None, most: int | None = None
) -> int:
    """Return an integer within limits. A bool raises an error."""
    try:
        found = _core.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise fail(TypeError, name, "an integer", type(value)) from None
    if (least is None or least <= found) and (most is None or found <= most):
        return found
    expected = (
        "a positive integer" if most is None else f"an integer from {least} to {most}"
    )
    raise fail(ValueError, name, expected, found)


def number(
    value: Any, name: str, least: float | None = None, most: float | None = None
) -> float:
    """Return a float within limits. An integer beyond float64 becomes infinite."""
    if isinstance(value, (str, bytes, bool, np.bool)):
        raise fail(TypeError, name, "a number", type(value))
    try:
        found = float(value)
    except OverflowError:
        found = np.inf if value > 0 else -np.inf
    except TypeError:  # objects that float() rejects
        raise fail(TypeError, name, "a number", type(value)) from None
    if least is not None and most is not None and not least <= found <= most:
        raise fail(ValueError, name, f"{least} to {most}", found)
    return found


def flag(value: object, name: str) -> bool:
    """Return a flag as True or False. Only bool and NumPy's bool are flags."""
    if not isinstance(value, (bool, np.bool)):
        raise fail(TypeError, name, "True or False", type(value))
    return bool(value)


def choice(value: object, name: str, known: Iterable[Any], expected: str = "") -> Any:
    """Return the allowed name or integer that equals a value, or raise an error."""
    if type(value) in (str, int) and value in known:  # the usual case
        return value
    known = tuple(known)
    kind = int if isinstance(known[0], int) else str
    if kind is int:
        with suppress(TypeError):
            value = _core.index(value)  # type: ignore[arg-type]
    fits = isinstance(value, kind) and not isinstance(value, bool)
    for one in known if fits else ():
        if value == one:
            return one
    expected = expected or f"one of {', '.join(map(str, known))}"
    if not fits:
        raise fail(TypeError, name, expected, type(value))
    raise fail(ValueError, name, expected, value, known if kind is str else ())


@contextmanager
def restoring(data: object) -> Iterator[None]:
    """Check the schema of `data`, and replace errors of a `from_dict` by errors about
    `data`."""
    expected = "a result of to_dict()"
    if not isinstance(data, Mapping):
        end = " (json.loads reads it)" if isinstance(data, (str, bytes)) else ""
        raise fail(ValueError, "data", expected, f"{type(data).__name__}{end}")
    if data.get("schema") != 1:
        got = shown(data["schema"]) if "schema" in data else "no schema"
        raise fail(ValueError, "data", f"{expected} with schema 1", got)
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        got = f"a wrong item: {error}"
        raise fail(ValueError, "data", expected, got) from None


def real_dtype(dtype: Any, name: str = "dtype") -> np.dtype[Any]:
    """Return the dtype of real numbers that an argument selects."""
    found = dtypes.requested(dtype)
    if found not in REALS:
        from pyquant._refused import hint_of_type

        got = f"{dtypes.shown(dtype):.60}{hint_of_type(dtype, REALS)}"
        raise fail(TypeError, name, listed(REALS), got)
    made: np.dtype[Any] = _core.dtype_named(found)
    return made


def array(
    value: Any, name: str, types: Sequence[str], shape: tuple[int, ...] | None = None
) -> npt.NDArray[Any]:
    """Return an argument as an array. Check its type, and its shape if one is given."""
    made: npt.NDArray[Any] = value
    if type(value) is not np.ndarray:
        made = _core.plain(value, name)
    is_masked = _core.is_masked(made)
    if is_masked or dtypes.name_of(made.dtype) not in types:
        got = "a masked array" if is_masked else dtypes.described(made)
        raise fail(TypeError, name, listed(types), got)
    if shape is not None and made.shape != shape:
        raise fail(ValueError, name, f"shape {shape}", made.shape)
    return made


def out(
    out: Any,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    *apart: npt.NDArray[Any],
    name: str = "out",
    x: tuple[int, ...] = (),
) -> npt.NDArray[Any]:
    """Check an array that results are written to, and return it as a plain ndarray.

    Raise an error if the array shares memory with an array of `apart`. If the shape of the
    data is passed as `x`, the message about a wrong shape proposes an axis.
    """
    if not isinstance(out, np.ndarray) or _core.is_masked(out):
        kind = "a masked array" if isinstance(out, np.ndarray) else type(out)
        raise fail(TypeError, name, "a NumPy array", kind)
    plain: npt.NDArray[Any] = np.ndarray.view(out, np.ndarray)
    if plain.dtype.newbyteorder("=") != dtype:
        raise fail(TypeError, name, str(dtype), dtypes.described(plain))
    if plain.shape != shape:
        axes = [d for d, n in enumerate(x) if plain.shape == (n,)]
        end = f", which fits axis={listed(map(str, axes))}" if axes else ""
        if [n for n in plain.shape if n != 1] == [n for n in shape if n != 1]:
            end = f"; {name}.reshape({shape}) fits"
        raise fail(ValueError, name, f"shape {shape}", f"{plain.shape}{end}")
    if not plain.flags.writeable:
        raise fail(ValueError, name, "a writeable array", "a read-only one")
    span = plain.itemsize
    steps = () if plain.flags.forc else zip(map(abs, plain.strides), shape, strict=True)
    for stride, extent in sorted(steps):
        if extent > 1 and stride < span and plain.size:
            said = "dimensions that neither overlap nor interleave"
            raise fail(ValueError, name, said, f"strides {plain.strides}")
        span += (extent - 1) * stride
    if any(_shares(plain, one) for one in apart):
        other = "an input" if name == "out" else "another argument"
        got = f"an array that overlaps {other}"
        raise fail(ValueError, name, "memory of its own", got)
    return plain


def _shares(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
