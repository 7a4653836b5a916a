# The floating-point environment of code that computes with NumPy.


def default_fpenv(function, /):
    """Decorate a function or class that computes with NumPy: use the default floating-point
    environment during each call, and restore the caller's environment.

    The environment consists of rounding mode, flush-to-zero, denormals-are-zero, trapped
    exceptions and exception flags, on x86 of SSE and x87. A decorated class uses it in all
    public and special methods and in properties. The C core sets it itself, so code that
    only calls the core needs no decorator.
    """
    if isinstance(function, type):
        for name, member in list(vars(function).items()):
            if not name.startswith("_") or name.endswith("__"):
                _decorate(function, name, member)
        return function

    def in_default_fpenv(*args, **kwargs):
        cdef pq_fpenv_all found = pq_fpenv_enter_all()
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            _raise_hint(error, function, args, kwargs)
            raise
        finally:
            pq_fpenv_leave_all(found)

    return _update_wrapper(in_default_fpenv, function)


cdef int _decorate(object owner, str name, object member) except -1:
    if isinstance(member, property):
        setattr(owner, name, property(default_fpenv(member.fget), doc=member.__doc__))
    elif isinstance(member, _Function):
        setattr(owner, name, default_fpenv(member))
    return 0


# Threads inherit the environment of the caller that starts them.
_threads._serve = default_fpenv(_threads._serve)
