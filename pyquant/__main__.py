# SPDX-License-Identifier: Apache-2.0
"""`python -m pyquant`, the command of `pyquant.cli`."""

import sys

from pyquant.cli import run_as_program

if __name__ == "__main__":
    sys.exit(run_as_program())
