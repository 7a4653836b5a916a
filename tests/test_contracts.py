"""Test rules of all public functions: memory layouts, `out`, `threads`, unchanged
arguments.

The calls of public_calls.py run again, with a wrapper around each public function. The
wrapper changes the arguments. The result must keep its bits.
"""

import inspect
import itertools

import numpy as np
import public_calls
import pytest
from support import FOR_OUT, LAYOUTS, case, lent, poisoned, split_small_arrays, untouched

# The type of the result of these functions is the type of an argument.
TYPE_OF_ARGUMENT = ("dtypes.described", "awq.pack", "gptq.pack", "matmulnbits.pack")


@pytest.fixture(scope="module")
def calls():
    """Return the calls of public_calls.py by name, with the bits of each result."""
    rows = {k: call for k, call in public_calls.rows().items() if k != "cli.main"}
    return {name: (call, public_calls.bits(call())) for name, call in rows.items()}


def check(calls, change, needs=None):
    """Run all calls again. `change` receives each call of a public function. Every result
    must keep its bits."""
    with public_calls.replaced(change, needs) as missing:
        for name, (call, expected) in calls.items():
            with case(call=name):
                assert public_calls.bits(call()) == expected
    assert not (needs and missing)  # every public function must have been called


FORMS = {**LAYOUTS, "lent": lent}


def moved(value, layout):
    scalar = layout == "lent" and isinstance(value, np.generic)
    if scalar or type(value) is np.ndarray:
        return FORMS[layout](value)
    return [moved(one, layout) for one in value] if type(value) is list else value


def own_bytes(values):
    return [one.tobytes() for one in values if type(one) is np.ndarray]


@pytest.mark.parametrize("layout", FORMS)
def test_layout_of_arguments(layout, calls):
    """Arguments can have any memory layout, and calls do not change the arguments."""

    def change(function, args, kwargs):
        args = [moved(one, layout) for one in args]
        kwargs = {
            k: one if k in ("out", "mask") else moved(one, layout)
            for k, one in kwargs.items()
        }
        inputs = [*args, *(one for k, one in kwargs.items() if k not in ("out", "mask"))]
        before = own_bytes(inputs)
        result = function(*args, **kwargs)
        assert own_bytes(inputs) == before
        return result

    if layout == "byte order":
        calls = {name: calls[name] for name in calls.keys() - {*TYPE_OF_ARGUMENT}}
    check(calls, change)


def test_threads(calls, monkeypatch):
    def change(function, args, kwargs):
        with pytest.raises(
            ValueError, match=r"^threads: expected a positive integer, got 0$"
        ):
            function(*args, **{**kwargs, "threads": 0})
        return function(*args, **{**kwargs, "threads": 3})

    with split_small_arrays(monkeypatch):
        check(calls, change, "threads")


def array_of(result):
    """Return the array in a result. Return `None` if the result contains no array."""
    first = result[0] if isinstance(result, tuple) else result
    return first if type(first) is np.ndarray else None


def wrong_outputs(made, function):
    """Yield pairs of an array that is invalid as `out`, and the class of the error."""
    yield poisoned(made.dtype, (*made.shape, 2)), ValueError
    yield poisoned(f"S{made.itemsize}", made.shape), TypeError
    read_only = poisoned(made.dtype, made.shape)
    read_only.flags.writeable = False
    yield read_only, ValueError
    if made.size > 1:
        strides = [made.itemsize * (sum(n > 1 for n in made.shape) > 1)] * made.ndim
        memory = poisoned(made.dtype, made.size)
        yield np.lib.stride_tricks.as_strided(memory, made.shape, strides), ValueError


@pytest.mark.parametrize("layout", FOR_OUT)
def test_out(layout, calls):
    """A call writes only to the elements of `out`, not between them, and returns `out`."""

    def change(function, args, kwargs):
        made = None if "out" in kwargs else array_of(function(*args, **kwargs))
        if made is None:
            return function(*args, **kwargs)
        for wrong, error in wrong_outputs(made, function):
            with pytest.raises(error, match=r"^(out|dtype): expected "):
                function(*args, **kwargs, out=wrong)
            assert untouched(wrong)
        out = LAYOUTS[layout](poisoned(made.dtype, made.shape))
        result = function(*args, **kwargs, out=out)
        assert array_of(result) is out
        if layout == "gaps" and out.ndim:
            assert untouched(out.base[..., ::3])
            assert untouched(out.base[..., 2::3])
        native = out.astype(made.dtype, order="A")
        return (native, *result[1:]) if isinstance(result, tuple) else native

    check(calls, change, "out")


# PLACES combines views with indices of the byte at which `out` begins in memory. An
# argument of the call begins at byte 40.
VIEWS = (lambda out: out, lambda out: np.flip(out) if out.ndim else out, lambda out: out.T)
PLACES = list(itertools.product(VIEWS, (40, 0, 1, 8, 39, 41, 44, 72, 80)))


def test_out_over_an_argument(calls):
    """If `out` overlaps an argument, the result is correct, or nothing is written."""
    places = itertools.cycle(PLACES)

    def change(function, args, kwargs):
        result = function(*args, **kwargs)
        made = None if "out" in kwargs else array_of(result)
        if made is None or not made.size:
            return result
        call = inspect.signature(function).bind(*args, **kwargs)
        for name, value in list(call.arguments.items()):
            if type(value) is not np.ndarray or name == "mask":
                continue
            for view, first in itertools.islice(places, 3):
                memory = np.zeros(80 + value.nbytes + made.nbytes, np.uint8)
                held = memory[40 : 40 + value.nbytes].view(value.dtype)
                held = held.reshape(value.shape)
                held[...] = value
                out = memory[first : first + made.nbytes].view(made.dtype)
                out = view(out.reshape(view(made).shape))
                before, error = memory.copy(), None
                call.arguments[name] = held
                with case(argument=name, first=first, strides=out.strides):
                    try:
                        function(*call.args, **call.kwargs, out=out)
                    except ValueError as caught:
                        error = str(caught)
                    if error is None:
                        assert public_calls.bits(out.copy()) == public_calls.bits(made)
                    else:
                        assert error.startswith("out: expected memory of its own")
                        assert (memory == before).all()
            call.arguments[name] = value
        return result

    check(calls, change, "out")
