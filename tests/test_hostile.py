"""Some thousand calls with hostile objects; `python -P tests/hostile.py` makes more."""

import hostile
from support import amount


def test_only_ordinary_exceptions():
    results = hostile.run(seed=2026, count=amount(400, 4000))
    assert results["returned"] > 0
    assert results["TypeError"] > 0
