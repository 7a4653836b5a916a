"""A plugin of pytest that skips the tests that passed in an earlier run.

The environment variable PASSED names a file. A run deselects the tests that the file names,
and then adds the names of the tests that passed. A test that checks less if optional
packages are missing always runs again.
"""

import os
from pathlib import Path

PASSED = Path(os.environ["PASSED"])
AGAIN = (
    "test_benchmarks.py",
    "test_cli_report.py",
    "test_conformance.py",
    "test_files.py",
    "test_fpenv.py",
)
passed = []


def pytest_collection_modifyitems(config, items):
    """Deselect the tests that passed in an earlier run."""
    earlier = set(PASSED.read_text().splitlines()) if PASSED.exists() else set()
    config.hook.pytest_deselected(items=[i for i in items if i.nodeid in earlier])
    items[:] = [i for i in items if i.nodeid not in earlier]


def pytest_runtest_logreport(report):
    """Add the name of a passed test to the list, unless the test must always run again."""
    if report.when == "call" and report.passed and not report.fspath.endswith(AGAIN):
        passed.append(report.nodeid)


def pytest_sessionfinish(session):
    """Write the names to the file, unless this process is a worker of pytest-xdist."""
    if not hasattr(session.config, "workerinput"):
        with PASSED.open("a") as file:
            file.writelines(f"{name}\n" for name in passed)
