/* SPDX-License-Identifier: Apache-2.0 */
/* Every check of arguments, and what is known of zero points. */
#ifndef PQ_ARGS_H
#define PQ_ARGS_H

#include <stdbool.h>

#include "pq.h"

/* Return the status of `call` from the function that contains the macro, if it is an error.
 */
#define PQ_TRY(call)                                                                       \
    do {                                                                                   \
        const enum pq_status pq_status_of_call = (call);                                   \
        if (pq_status_of_call != PQ_OK) {                                                  \
            return pq_status_of_call;                                                      \
        }                                                                                  \
    } while (0)

/*
 * `*args` becomes what this version knows of it: itself, or where the caller's struct is
 * shorter, or longer with nothing but zeros beyond, a copy in `room`.
 */
enum pq_status pq_other_args(const struct pq_args **args, struct pq_args *room);
static inline enum pq_status pq_known_args(const struct pq_args **args,
                                           struct pq_args *room)
{
    const bool usual = *args != NULL && (*args)->size == sizeof **args;
    return usual ? PQ_OK : pq_other_args(args, room);
}

/* The same for any struct: `given` begins with its size, of at least `least` bytes. */
enum pq_status pq_known_struct(const void **given, void *room, size_t size, size_t least);

/* Return true if the arrays have no elements. */
bool pq_is_empty(const struct pq_args *args);

/* Whether the rank, the extents and the blocks of `args` make sense. */
enum pq_status pq_check_shape(const struct pq_args *args);

/* Whether an array that is needed is there, with strides whose sums can be computed;
 * `blocks`: it has an element for each of them. */
enum pq_status pq_check_array(const struct pq_args *args, const struct pq_array *array,
                              bool blocks);

/* What quantize, dequantize and, without scales, repack have in common. `*args` becomes
 * what this version knows of it. */
enum pq_status pq_check_call(const struct pq_args **args, struct pq_args *room,
                             const struct pq_kernels *kernels, bool scaled, int part,
                             int parts);

/* The same of what looks at a real `in`, for two arrays indexed as parameters are. */
enum pq_status pq_check_reduction(const struct pq_kernels *kernels,
                                  const struct pq_args *args, const struct pq_array *lowest,
                                  const struct pq_array *highest, int part, int parts);

/* Whether zero points are of a type that goes with codes of type `code`: an integer, or
 * the narrow float itself. */
bool pq_zeros_suit(const struct pq_args *args, enum pq_type code);

/* Whether every zero point is within [lo, hi]; so they are where there are none. `args`
 * has passed the checks. */
bool pq_zeros_fit(const struct pq_args *args, int64_t lo, int64_t hi);

/* The same of integers that uint64 holds, of which `outside` gets one that is not. */
bool pq_unsigned_zeros_fit(const struct pq_args *args, uint64_t lo, uint64_t hi,
                           uint64_t *outside);

#endif
