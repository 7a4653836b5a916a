# SPDX-License-Identifier: Apache-2.0
"""Import the compiled module first, and other modules on first access.

If the compiled module cannot be imported, the command `pyquant` prints the reason.
"""

import sys

TYPE_CHECKING = False  # True for type checkers only; typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _program() -> str | None:
    """Return the command line of the process if the process runs the command `pyquant`."""
    script = sys.argv[0].replace("\\", "/").rpartition("/")[2] if sys.argv else ""
    if script in ("pyquant", "pyquant.exe"):
        return "pyquant"
    # With `python -m`, sys.argv[0] is "-m" during this import. In sys.orig_argv, the name
    # of the module precedes the arguments.
    name = sys.orig_argv[-len(sys.argv) :][:1]
    by_name = sys.argv[:1] == ["-m"] and name in (["pyquant"], ["-mpyquant"])
    return "python -m pyquant" if by_name else None


def _require_core() -> None:
    try:
        import pyquant._core  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "pyquant._core":
            raise
        msg = (
            "pyquant: expected its compiled module, got the source folder; install with "
            "'pip install .' and start Python elsewhere, or here with -P"
        )
        raise ImportError(msg) from None


def _start() -> None:
    """Import the compiled module. If the process runs the command, Ctrl-C prints no
    traceback during imports."""
    if _program():
        # Import _signal instead of signal, because signal imports enum, which takes time.
        import _signal  # type: ignore[import-not-found]

        if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
            _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    try:
        _require_core()
    except ImportError as error:
        program = _program()
        if program is None or not str(error).startswith(("PYQUANT_ISA: ", "pyquant: ")):
            raise
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(2)


def lazy(
    package: str, public: list[str], names: "Mapping[str, str]"
) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """
    Return `__getattr__` and `__dir__` for a package.

    `names` maps a module to the names that the package imports from it on first access. The
    names under the key `package` are modules of the package.
    """

    from importlib import import_module

    owners = {name: owner for owner in names for name in names[owner].split()}

    def find(name: str) -> object:
        if name not in owners:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if owners[name] == package:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(owners[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find, lambda: sorted(public)


_start()
