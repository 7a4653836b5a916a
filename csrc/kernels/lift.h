/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EACH1 to EACH3 apply a primitive f, a function of single vectors, to the vectors a to d
 * of chunks. BOTH1 to BOTH3 apply f to the vectors a and b of pairs. The result is the
 * initializer of a chunk or of a pair.
 */
#ifndef PQ_LIFT_H
#define PQ_LIFT_H

#include "pq_compiler.h"

#define EACH1(f, x) {f((x).a), f((x).b), f((x).c), f((x).d)}
#define EACH2(f, x, y) {f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d)}
#define EACH3(f, x, y, z)                                                                  \
    {f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b), f((x).c, (y).c, (z).c),               \
     f((x).d, (y).d, (z).d)}
#define BOTH1(f, x) {f((x).a), f((x).b)}
#define BOTH2(f, x, y) {f((x).a, (y).a), f((x).b, (y).b)}
#define BOTH3(f, x, y, z) {f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b)}

/* Define the function `word`, which applies f to chunks (LIFT) or to pairs (PAIR). */
#define LIFT_AS(type, word, parameters, ...)                                               \
    PQ_INLINE type word parameters                                                         \
    {                                                                                      \
        return (type)__VA_ARGS__;                                                          \
    }
#define LIFT1(type, from, word, f) LIFT_AS(type, word, (from x), EACH1(f, x))
#define LIFT2(type, word, f) LIFT_AS(type, word, (type x, type y), EACH2(f, x, y))
#define LIFT3(type, word, f)                                                               \
    LIFT_AS(type, word, (type x, type y, type z), EACH3(f, x, y, z))
#define PAIR1(type, word, f) LIFT_AS(type, word, (type x), BOTH1(f, x))
#define PAIR2(type, word, f) LIFT_AS(type, word, (type x, type y), BOTH2(f, x, y))

/* Define the function `word`, which returns a chunk with the number `s` in every lane. */
#define LIFT_SPLAT(type, number, vector, word, f)                                          \
    PQ_INLINE type word(number s)                                                          \
    {                                                                                      \
        const vector v = f(s);                                                             \
        return (type){v, v, v, v};                                                         \
    }

/* Define the function `word`, which loads or stores vectors of `lanes` elements. */
#define LIFT_LOAD(type, element, lanes, word, f)                                           \
    PQ_INLINE type word(const void *p)                                                     \
    {                                                                                      \
        const element *from = p;                                                           \
        return (type){f(from), f(from + (lanes)), f(from + 2 * (lanes)),                   \
                      f(from + 3 * (lanes))};                                              \
    }
/* `keep_order` is called after each store: see PQ_KEEP_ORDER. */
#define LIFT_STORE(type, element, lanes, word, f, keep_order)                              \
    PQ_INLINE void word(void *p, type x)                                                   \
    {                                                                                      \
        element *to = p;                                                                   \
        f(to, x.a);                                                                        \
        keep_order();                                                                      \
        f(to + (lanes), x.b);                                                              \
        keep_order();                                                                      \
        f(to + 2 * (lanes), x.c);                                                          \
        keep_order();                                                                      \
        f(to + 3 * (lanes), x.d);                                                          \
        keep_order();                                                                      \
    }

#endif
