"""Call public functions with hostile objects. hostile.py describes a longer run."""

import hostile
from support import amount


def test_only_ordinary_exceptions():
    results = hostile.run(seed=2026, count=amount(400, 4000))
    assert results["returned"] > 0
    assert results["TypeError"] > 0
