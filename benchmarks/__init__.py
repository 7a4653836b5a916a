# SPDX-License-Identifier: Apache-2.0
"""Measure the speed of the installed package: `python -m benchmarks`."""

import sys
from pathlib import Path

# Remove the checkout from the path, because its pyquant/ has no compiled module.
_ROOT = Path(__file__).resolve().parent.parent
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != _ROOT]
