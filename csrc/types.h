/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of element types, one row each, and functions that return properties of a type.
 * Only requantize.c depends on the order of enum pq_type. All other files call these
 * functions to find the family of a type. narrow_float.h has the constants of narrow
 * floats.
 */
#ifndef PQ_TYPES_H
#define PQ_TYPES_H

#include <stdbool.h>

#include "pq.h"
#include "pq_compiler.h"

/*
 * Lists of types, one for each family: X(type, name, kind, bits, carrier, lowest, highest).
 * `carrier` is the type that kernels process: int8 for int4 and int2, uint8 for uint4 and
 * uint2, else the type itself. No kernel for one input type and one output type has a type
 * of PQ_FOR_OTHER.
 */
#define PQ_FOR_REAL(X)                                                                     \
    X(F32, "float32", REAL, 32, F32, 0, 0)                                                 \
    X(F16, "float16", REAL, 16, F16, 0, 0)                                                 \
    X(BF16, "bfloat16", REAL, 16, BF16, 0, 0)
#define PQ_FOR_CODE(X)                                                                     \
    X(I8, "int8", INTEGER, 8, I8, INT8_MIN, INT8_MAX)                                      \
    X(U8, "uint8", INTEGER, 8, U8, 0, UINT8_MAX)                                           \
    X(I16, "int16", INTEGER, 16, I16, INT16_MIN, INT16_MAX)                                \
    X(U16, "uint16", INTEGER, 16, U16, 0, UINT16_MAX)
#define PQ_FOR_32_BIT(X)                                                                   \
    X(I32, "int32", INTEGER, 32, I32, INT32_MIN, INT32_MAX)                                \
    X(U32, "uint32", INTEGER, 32, U32, 0, UINT32_MAX)
#define PQ_FOR_NARROW(X)                                                                   \
    X(I4, "int4", INTEGER, 4, I8, -8, 7)                                                   \
    X(U4, "uint4", INTEGER, 4, U8, 0, 15)                                                  \
    X(I2, "int2", INTEGER, 2, I8, -2, 1)                                                   \
    X(U2, "uint2", INTEGER, 2, U8, 0, 3)
#define PQ_FOR_FLOAT(X)                                                                    \
    X(F8E3M4, "float8_e3m4", FLOAT, 8, F8E3M4, 0, 0)                                       \
    X(F8E4M3, "float8_e4m3", FLOAT, 8, F8E4M3, 0, 0)                                       \
    X(F8E4M3B11FNUZ, "float8_e4m3b11fnuz", FLOAT, 8, F8E4M3B11FNUZ, 0, 0)                  \
    X(F8E4M3FN, "float8_e4m3fn", FLOAT, 8, F8E4M3FN, 0, 0)                                 \
    X(F8E4M3FNUZ, "float8_e4m3fnuz", FLOAT, 8, F8E4M3FNUZ, 0, 0)                           \
    X(F8E5M2, "float8_e5m2", FLOAT, 8, F8E5M2, 0, 0)                                       \
    X(F8E5M2FNUZ, "float8_e5m2fnuz", FLOAT, 8, F8E5M2FNUZ, 0, 0)                           \
    X(F6E2M3FN, "float6_e2m3fn", FLOAT, 6, F6E2M3FN, 0, 0)                                 \
    X(F6E3M2FN, "float6_e3m2fn", FLOAT, 6, F6E3M2FN, 0, 0)                                 \
    X(F4E2M1FN, "float4_e2m1fn", FLOAT, 4, F4E2M1FN, 0, 0)
#define PQ_FOR_OTHER(X)                                                                    \
    X(F64, "float64", REAL, 64, F64, 0, 0)                                                 \
    X(I64, "int64", INTEGER, 64, I64, INT64_MIN, INT64_MAX)                                \
    X(U64, "uint64", INTEGER, 64, U64, 0, UINT64_MAX)                                      \
    X(F8E8M0FNU, "float8_e8m0fnu", EXPONENT, 8, F8E8M0FNU, 0, 0)
#define PQ_FOR_CARRIER(X) PQ_FOR_CODE(X) PQ_FOR_32_BIT(X) PQ_FOR_FLOAT(X)
#define PQ_FOR_TYPE(X) PQ_FOR_REAL(X) PQ_FOR_CARRIER(X) PQ_FOR_NARROW(X) PQ_FOR_OTHER(X)

/* Indices of types in the tables of kernels. */
#define PQ_ROW(type, ...) PQ_##type##_ROW,
enum { PQ_FOR_REAL(PQ_ROW) PQ_REALS };
enum { PQ_FOR_CARRIER(PQ_ROW) PQ_CARRIERS };
enum { PQ_FOR_NARROW(PQ_ROW) PQ_NARROWS };
#undef PQ_ROW

/* Define a function that returns one column of a type's row. If the type is a constant,
 * compilers compute the result. */
#define PQ_TYPE_COLUMN(name, type_of_column, none, CASE)                                   \
    PQ_INLINE type_of_column name(enum pq_type type)                                       \
    {                                                                                      \
        switch (type) {                                                                    \
            PQ_FOR_TYPE(CASE)                                                              \
        default:                                                                           \
            return none;                                                                   \
        }                                                                                  \
    }
#define PQ_CASE(type, result)                                                              \
case PQ_##type:                                                                            \
    return result;
#define PQ_CASE_KIND(type, name, kind, ...) PQ_CASE(type, PQ_KIND_##kind)
#define PQ_CASE_BITS(type, name, kind, bits, ...) PQ_CASE(type, bits)
#define PQ_CASE_CARRIER(type, name, kind, bits, carrier, ...) PQ_CASE(type, PQ_##carrier)
#define PQ_CASE_ROW(type, ...) PQ_CASE(type, PQ_##type##_ROW)
#define PQ_CASE_LOWEST(type, name, kind, bits, carrier, lo, hi) PQ_CASE(type, lo)
#define PQ_CASE_HIGHEST(type, name, kind, bits, carrier, lo, hi) PQ_CASE(type, hi)
PQ_TYPE_COLUMN(pq_kind_of, enum pq_kind, PQ_KIND_NONE, PQ_CASE_KIND)
PQ_TYPE_COLUMN(pq_bits_of, int, 0, PQ_CASE_BITS)
PQ_TYPE_COLUMN(pq_carrier_of, enum pq_type, PQ_NO_TYPE, PQ_CASE_CARRIER)
PQ_TYPE_COLUMN(pq_lowest_of, int64_t, 0, PQ_CASE_LOWEST)
PQ_TYPE_COLUMN(pq_highest_of, uint64_t, 0, PQ_CASE_HIGHEST)
#undef PQ_TYPE_COLUMN

/* Return the index of a type in the tables of kernels of its family (real types, carriers
 * or narrow integers), or -1 if the tables do not contain the type. */
PQ_INLINE int pq_row_of(enum pq_type type)
{
    switch (type) {
        PQ_FOR_REAL(PQ_CASE_ROW)
        PQ_FOR_CARRIER(PQ_CASE_ROW)
        PQ_FOR_NARROW(PQ_CASE_ROW)
    default:
        return -1;
    }
}
#undef PQ_CASE
#undef PQ_CASE_KIND
#undef PQ_CASE_BITS
#undef PQ_CASE_CARRIER
#undef PQ_CASE_ROW
#undef PQ_CASE_LOWEST
#undef PQ_CASE_HIGHEST

PQ_INLINE bool pq_is_real(enum pq_type type)
{
    return pq_kind_of(type) == PQ_KIND_REAL;
}

/* Return true for an integer type of any width. */
PQ_INLINE bool pq_is_integer(enum pq_type type)
{
    return pq_kind_of(type) == PQ_KIND_INTEGER;
}

PQ_INLINE bool pq_is_narrow_integer(enum pq_type type)
{
    return pq_is_integer(type) && pq_bits_of(type) < 8;
}

PQ_INLINE bool pq_is_narrow_float(enum pq_type type)
{
    return pq_kind_of(type) == PQ_KIND_FLOAT;
}

/* Return true if `type` can be the type of codes. */
PQ_INLINE bool pq_is_code(enum pq_type type)
{
    return pq_is_narrow_float(type) || pq_is_integer(type);
}

/* Return true for 64-bit integers. float64 cannot represent all of their values. */
PQ_INLINE bool pq_is_64_bit(enum pq_type type)
{
    return pq_is_integer(type) && pq_bits_of(type) == 64;
}

PQ_INLINE size_t pq_bytes_of(enum pq_type type)
{
    return (size_t)(pq_bits_of(type) + 7) / 8;
}

/* The integers from `lo` to `hi`. pq_range_of() returns the range of an integer type. For
 * uint64, `hi` is INT64_MAX, the largest value of int64_t. */
struct pq_range {
    int64_t lo, hi;
};

PQ_INLINE struct pq_range pq_range_of(enum pq_type type)
{
    const uint64_t highest = pq_highest_of(type);
    return (struct pq_range){pq_lowest_of(type),
                             highest > INT64_MAX ? INT64_MAX : (int64_t)highest};
}

#endif
