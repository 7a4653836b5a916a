"""
Run implementations with the vectors. Each module is an adapter of one package.

`NAME` is that of the package, `OPS` maps the operators that it is asked for to whatever
`results` needs; `results(call)` is a list of arrays. It raises Unsupported where the
implementation has nothing for the call; any other exception is a refusal.
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
    """Run a call. Raise Unsupported if the message of an exception matches `pattern`."""
    try:
        return run(call)
    except Exception as error:
        if not call.refused and re.search(pattern, str(error)):
            raise Unsupported(str(error)) from error
        raise
