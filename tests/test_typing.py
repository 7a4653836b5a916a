# SPDX-License-Identifier: Apache-2.0
"""The types that checkers derive are those that results have."""

from __future__ import annotations

from pathlib import Path

import pytest
import typed_calls

import pyquant


@pytest.mark.parametrize("call", typed_calls.CALLS, ids=lambda call: call.__name__)
def test_results_have_the_types_that_checkers_derive(call):
    call()


def test_the_package_says_that_it_is_typed():
    package = Path(pyquant.__file__).parent
    assert (package / "py.typed").is_file()
    assert (package / "_core.pyi").is_file()
