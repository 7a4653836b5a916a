"""
Run implementations with the conformance files. Each module adapts one package.

In a module, `NAME` is the name of the package, and `OPS` are its operators. `results(call)`
returns a list of arrays. It raises Unsupported if the package lacks the operator or an
option. Any other exception means that the package rejects the call.
"""

import re

from conformance.cases import argument


class Unsupported(Exception):
    """The implementation lacks the operator, a type or an option."""


def need(holds, what):
    if not holds:
        raise Unsupported(what)


def arguments(call):
    return {name: argument(value) for name, value in call.args.items()}


def by_message(call, run, pattern):
    """Run a call. If it raises an exception that matches `pattern`, raise Unsupported."""
    try:
        return run(call)
    except Exception as error:
        if not call.refused and re.search(pattern, str(error)):
            raise Unsupported(str(error)) from error
        raise
