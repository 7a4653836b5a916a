"""Fixtures for all tests: instruction-set levels, hypothesis profiles, the import path."""

import os
import sys
from pathlib import Path

import pytest

# `python -m pytest` puts the checkout first on the path; the installed package is tested.
ROOT = Path(__file__).resolve().parent.parent
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != ROOT]

from support import LEVELS, REQUIRED  # noqa: E402, which imports the package

try:
    import hypothesis
except ImportError:  # test_properties.py is skipped then
    pass
else:
    hypothesis.settings.register_profile(
        "pyquant",
        deadline=None,
        database=None,
        derandomize=bool(os.environ.get("CI")),
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("pyquant")


def require(level):
    """Skip a test whose level this machine lacks, or fail it where it was asked for."""
    from pyquant import isa

    if level not in isa.available():
        if level in REQUIRED:
            pytest.fail(f"{level} is required here but is not among {isa.available()}")
        pytest.skip(f"this CPU has no {level}")


@pytest.fixture(params=LEVELS)
def isa(request):
    """Each instruction-set level in turn."""
    require(request.param)
    return request.param


@pytest.fixture(params=[level for level in LEVELS if level != "scalar"])
def simd(request):
    """Each level that must agree with scalar."""
    require(request.param)
    return request.param
