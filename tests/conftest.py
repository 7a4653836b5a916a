"""Define --quick and --everything, fixtures, Hypothesis settings and the import path."""

import sys
from pathlib import Path

import pytest

# Remove the checkout, which `python -m pytest` adds, to test the installed package.
ROOT = Path(__file__).resolve().parent.parent
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != ROOT]

import support  # noqa: E402, because it imports the package

try:
    import hypothesis
except ImportError:  # pytest skips the tests that use Hypothesis
    hypothesis = None


def pytest_addoption(parser):
    group = parser.getgroup("pyquant")
    group.addoption("--everything", action="store_true", help="run the large sizes, too")
    group.addoption(
        "--quick", action="store_true", help="run each test with its first parameters only"
    )


def pytest_configure(config):
    support.EVERYTHING = config.getoption("--everything")
    if hypothesis is None:
        return
    hypothesis.settings.register_profile(
        "pyquant",
        deadline=None,
        database=None,
        # Without --hypothesis-seed=N, all runs test equal random examples.
        derandomize=config.getoption("--hypothesis-seed", None) is None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("pyquant")


def pytest_collection_modifyitems(config, items):
    """With --quick, run each test function only with its first set of parameters."""
    if not config.getoption("--quick"):
        return
    first = {}
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    kept = list(first.values())
    config.hook.pytest_deselected(items=[i for i in items if i not in set(kept)])
    items[:] = kept


def pytest_runtest_setup():
    support.SEED = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Print the command that repeats a failed test."""
    report = yield
    if report.failed:
        command = support.repeat_command(item.nodeid)
        if (seed := item.config.getoption("--hypothesis-seed", None)) is not None:
            command += f" --hypothesis-seed={seed}"
        report.sections.append(("Repeat this test", command))
    return report


@pytest.fixture(params=support.LEVELS)
def isa(request):
    """Return each available instruction set in turn."""
    return request.param


@pytest.fixture(params=support.LEVELS[1:])
def simd(request):
    """Return each available instruction set, except scalar, in turn."""
    return request.param


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Change the working directory to an empty folder, and return the folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(capsys):
    """Run a command that must fail with one line of error that contains the text `said`."""
    from pyquant.cli import main

    def run(said, command, *arguments):
        capsys.readouterr()
        assert main([command, *map(str, arguments)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith(f"pyquant {command}: ")
        assert said in err

    return run


@pytest.fixture
def small_parts(monkeypatch):
    """Split even small arrays into parts for threads."""
    with support.split_small_arrays(monkeypatch):
        yield


@pytest.fixture
def rng():
    """Return a random generator with an equal seed in each test."""
    return support.np.random.default_rng(20)
