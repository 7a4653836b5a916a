# Instruction sets: the tables of kernels, and the interface for other modules.


# The addresses of the tables of kernels by name of the instruction set, the best one first.
cdef dict _tables = {}
cdef const char *_isa = pq_isa_name(0)
while _isa != NULL:
    _tables[_isa.decode()] = <uintptr_t>pq_isa_find(_isa)
    _isa = pq_isa_name(<int>len(_tables))
isa_available = tuple(_tables)


cdef const pq_kernels *_kernels_of(str isa) except NULL:
    if isa not in _tables:
        raise ValueError(f"isa: expected one of {', '.join(_tables)}, got {isa!r}")
    return <const pq_kernels *><uintptr_t>_tables[isa]


def _choose_isa():
    wanted = os.environ.get("PYQUANT_ISA", "")
    if not wanted:
        return isa_available[0]
    if wanted not in isa_available:
        raise ImportError(
            f"PYQUANT_ISA: expected one of {', '.join(isa_available)}, got {wanted!r}"
        )
    return wanted


isa_active = _choose_isa()
cdef const pq_kernels *_active = _kernels_of(isa_active)


def use_isa(str isa not None, /):
    """Set the instruction set of all calls, and return the previous one, for tests and
    benchmarks."""
    global isa_active, _active
    before = isa_active
    _active = _kernels_of(isa)
    isa_active = isa
    return before


# The interface for other extension modules, see csrc/pyquant.h. `_version` keeps the text
# of the version in memory, because `_api` has a pointer to the text.
cdef bytes _version = __version__.encode()
cdef pq_api _api
pq_api_init(&_api, _active, PyBytes_AS_STRING(_version))
c_api = PyCapsule_New(&_api, "pyquant._core.c_api", NULL)
