/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pyquant.h - the functions of pq.h from an installed pyquant, for extension modules.
 *
 *     const struct pq_api *api = pyquant_import();
 *     if (api == NULL) return NULL;    // an ImportError is set
 *
 * needs the GIL; what the table holds needs neither the GIL nor Python, and stays valid
 * until the process ends. Compile with the folder that pyquant.get_include() names; there
 * is nothing to link.
 */
#ifndef PYQUANT_H
#define PYQUANT_H

#include <Python.h>

#include "pq.h"

#define PYQUANT_CAPSULE "pyquant._core.c_api"

#ifdef __cplusplus
extern "C" {
#endif

/* Null with an ImportError when pyquant is missing or is something else of this name, or
 * its interface is another major version or an older minor one than this header. */
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
