/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Define inline functions on vectors (words) in portable C. A vector is a struct with an
 * array `v`. The expression of a word computes element i of the result from the elements of
 * x and y. Loops have no branches and a constant length, so compilers vectorize the loops.
 */
#ifndef PQ_EACH_H
#define PQ_EACH_H

#include <string.h>

#include "pq_compiler.h"

/* Iterate over the elements of the vector x. */
#define EACH(i, x) for (int i = 0; i < (int)(sizeof(x).v / sizeof *(x).v); i++)

/* Define a word with any operands (WORD_OF), one operand (WORD1), or two operands of one
 * type (WORD2). IN_PLACE stores the result in the operand x, because GCC may copy x if
 * there is a separate result variable. */
#define IN_PLACE(type, word, parameters, expression)                                       \
    PQ_INLINE type word parameters                                                         \
    {                                                                                      \
        EACH(i, x) x.v[i] = expression;                                                    \
        return x;                                                                          \
    }
#define WORD_AS(attribute, to, word, parameters, expression)                               \
    attribute to word parameters                                                           \
    {                                                                                      \
        to r;                                                                              \
        EACH(i, r) r.v[i] = expression;                                                    \
        return r;                                                                          \
    }
#define WORD_OF(to, word, parameters, expression)                                          \
    WORD_AS(PQ_INLINE, to, word, parameters, expression)
#define WORD1(to, word, from, expression) WORD_OF(to, word, (from x), expression)
#define WORD2(type, word, expression) IN_PLACE(type, word, (type x, type y), expression)

/* Define the arithmetic words of a type, like LIFT_ARITHMETIC of kernels/lift.inc. */
#define ARITHMETIC(type, before, after)                                                    \
    WORD2(type, before##add##after, x.v[i] + y.v[i])                                       \
    WORD2(type, before##subtract##after, x.v[i] - y.v[i])                                  \
    WORD2(type, before##multiply##after, x.v[i] * y.v[i])                                  \
    WORD2(type, before##divide##after, x.v[i] / y.v[i])                                    \
    WORD2(type, before##smaller##after, x.v[i] < y.v[i] ? x.v[i] : y.v[i])                 \
    WORD2(type, before##larger##after, x.v[i] > y.v[i] ? x.v[i] : y.v[i])

/* Define two words that load and store a vector without a conversion. SPLAT defines a
 * word that repeats a number. */
#define LOAD_STORE(type, load, store)                                                      \
    PQ_INLINE type load(const void *p)                                                     \
    {                                                                                      \
        type r;                                                                            \
        memcpy(r.v, p, sizeof r.v);                                                        \
        return r;                                                                          \
    }                                                                                      \
    PQ_INLINE void store(void *p, type x)                                                  \
    {                                                                                      \
        memcpy(p, x.v, sizeof x.v);                                                        \
    }
#define SPLAT(type, word, number) WORD_OF(type, word, (number s), s)

/* Define a word that loads elements of another type and converts them by f. STORE_AS
 * defines a word that converts and stores. The words copy single elements, because GCC
 * would copy an array twice. */
#define LOAD_AS(type, word, element, f)                                                    \
    PQ_INLINE type word(const void *p)                                                     \
    {                                                                                      \
        type r;                                                                            \
        EACH(i, r)                                                                         \
        {                                                                                  \
            element x;                                                                     \
            memcpy(&x, (const char *)p + (size_t)i * sizeof x, sizeof x);                  \
            r.v[i] = f(x);                                                                 \
        }                                                                                  \
        return r;                                                                          \
    }
#define STORE_AS(type, word, element, f)                                                   \
    PQ_INLINE void word(void *p, type x)                                                   \
    {                                                                                      \
        EACH(i, x)                                                                         \
        {                                                                                  \
            const element r = f(x.v[i]);                                                   \
            memcpy((char *)p + (size_t)i * sizeof r, &r, sizeof r);                        \
        }                                                                                  \
    }

#endif
