/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pyquant.h - get the functions of pq.h from an installed pyquant. For extension modules.
 *
 *     const struct pq_api *api = pyquant_import();
 *     if (api == NULL) return NULL;    // an ImportError is set
 *
 * pyquant_import() needs the GIL. The functions of the table need neither the GIL nor
 * Python. The table stays valid until the process ends. pyquant.get_include() returns the
 * folder of this header. Link no library.
 */
#ifndef PYQUANT_H
#define PYQUANT_H

#include <Python.h>

#include "pq.h"

#define PYQUANT_CAPSULE "pyquant._core.c_api"

#ifdef __cplusplus
extern "C" {
#endif

/* Import pyquant and return its table of functions. Return null and set ImportError if
 * pyquant is missing or has no C interface, or if its interface does not fit this header.
 * The major versions must be equal; the minor version must not be older. */
static inline const struct pq_api *pyquant_import(void)
{
    const struct pq_api *api = (const struct pq_api *)PyCapsule_Import(PYQUANT_CAPSULE, 0);
    if (api == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_SetString(PyExc_ImportError, "pyquant: expected a package with a C "
                                           "interface, got one without " PYQUANT_CAPSULE);
    }
    if (api != NULL && (api->major != PQ_API_MAJOR || (int)api->minor < PQ_API_MINOR)) {
        PyErr_Format(PyExc_ImportError,
                     "pyquant: expected version %d.%d of the C interface, for which this "
                     "module was compiled, got %u.%u of pyquant %s",
                     PQ_API_MAJOR, PQ_API_MINOR, api->major, api->minor, api->version);
        api = NULL;
    }
    return api;
}

#ifdef __cplusplus
}
#endif

#endif
