/* SPDX-License-Identifier: Apache-2.0 */
/* Presets: the formulas of other packages for the scale and zero point of a range. A preset
 * is one row of options. */
#ifndef PQ_PRESETS_H
#define PQ_PRESETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "types.h"

/* X(like, name, maximum width of a code, forms, codes, span, numbers, kept, before, from,
 * tie, middle, small). The table in docs/semantics/scales.md explains the values of a
 * row. */
#define PQ_FOR_PRESET(X)                                                                   \
    X(ONNXRUNTIME, "onnxruntime", 16, BOTH, NARROW, HALF, F64, INPUT, EXACT, LOW, EVEN,    \
      EVEN, ONE_BELOW_TINY)                                                                \
    X(PYTORCH, "pytorch", 16, BOTH, ALL, HALF, F32, F32, STORED, STEPS, EVEN, FLOOR,       \
      EPSILON)                                                                             \
    X(ATEN, "aten", 16, BOTH, ALL, SPARSE, F64, ANY, EXACT, DIFFERENCE, EVEN, EVEN, TENTH) \
    X(FBGEMM, "fbgemm", 16, BOTH, ALL, SPARSE, F64, F32, STORED, SUM, EVEN, EVEN, TENTH)   \
    X(TORCHAO, "torchao", 16, BOTH, ALL, HALF, INPUT, INPUT, EXACT, STEPS, EVEN, UP,       \
      NORMAL)                                                                              \
    X(TORCHAO_NO_CLIP, "torchao_no_clip", 16, SIGNED_SYMMETRIC, ALL, ENDS, INPUT, INPUT,   \
      EXACT, STEPS, EVEN, UP, NORMAL)                                                      \
    X(COMPRESSED_TENSORS, "compressed_tensors", 8, SIGNED, ALL, HALF, INPUT, INPUT, EXACT, \
      LOW, EVEN, NONE, EPSILON_FOR_ZERO)                                                   \
    X(TFLITE, "tflite", 16, ASYMMETRIC, ALL, HALF, F64, ANY, EXACT, SUM, AWAY, EVEN,       \
      ONE_FOR_ZERO)                                                                        \
    X(XNNPACK, "xnnpack", 16, ASYMMETRIC, ALL, HALF, F32, F32, EXACT, SIGN, EVEN, EVEN,    \
      ONE_FOR_ZERO)                                                                        \
    X(QUARK_PO2, "quark_po2", 16, BOTH, NARROW, POWER, F64, INPUT, EXACT, LOW, EVEN, LOW,  \
      ONE_BELOW_TINY)

enum pq_forms {
    PQ_FORMS_BOTH,
    PQ_FORMS_ASYMMETRIC,
    PQ_FORMS_SIGNED,
    PQ_FORMS_SIGNED_SYMMETRIC
};
enum pq_code_range { PQ_CODES_ALL, PQ_CODES_NARROW };
enum pq_span { PQ_SPAN_HALF, PQ_SPAN_ENDS, PQ_SPAN_SPARSE, PQ_SPAN_POWER };
/* Types of the arithmetic and of the scale. ANY is float64, and INPUT is the type of the
 * data. */
enum pq_numbers { PQ_NUMBERS_ANY, PQ_NUMBERS_F64, PQ_NUMBERS_F32, PQ_NUMBERS_INPUT };
enum pq_before { PQ_BEFORE_EXACT, PQ_BEFORE_STORED };
enum pq_from { PQ_FROM_LOW, PQ_FROM_STEPS, PQ_FROM_SUM, PQ_FROM_DIFFERENCE, PQ_FROM_SIGN };
enum pq_tie { PQ_TIE_EVEN, PQ_TIE_AWAY };
enum pq_middle {
    PQ_MIDDLE_EVEN,
    PQ_MIDDLE_FLOOR,
    PQ_MIDDLE_UP,
    PQ_MIDDLE_NONE,
    PQ_MIDDLE_LOW
};
enum pq_small {
    PQ_SMALL_ONE_BELOW_TINY,
    PQ_SMALL_EPSILON,
    PQ_SMALL_TENTH,
    PQ_SMALL_NORMAL,
    PQ_SMALL_EPSILON_FOR_ZERO,
    PQ_SMALL_ONE_FOR_ZERO
};

struct pq_preset {
    const char *name, *words;
    int most_bits;
    enum pq_forms forms;
    enum pq_code_range codes;
    enum pq_span span;
    enum pq_numbers numbers, kept;
    enum pq_before before;
    enum pq_from from;
    enum pq_tie tie;
    enum pq_middle middle;
    enum pq_small small;
};

/* Return true if a choice sets limits for the codes. */
static inline bool pq_is_range_given(const struct pq_choice *choice)
{
    return choice->lowest_code != 0 || choice->highest_code != 0;
}

/* Return the lowest and the highest integer code of a choice. */
static inline struct pq_range pq_code_range(const struct pq_choice *choice)
{
    return pq_is_range_given(choice)
               ? (struct pq_range){choice->lowest_code, choice->highest_code}
               : pq_range_of(choice->code);
}

/* Return the code type of a choice, or the default code type. */
static inline enum pq_type pq_chosen_code(const struct pq_choice *choice)
{
    return choice->code != PQ_NO_TYPE             ? choice->code
           : choice->rule == PQ_RULE_ONNX_DYNAMIC ? PQ_U8
                                                  : PQ_I8;
}

/* Return a preset, or NULL for PQ_LIKE_PYQUANT and unknown values. */
const struct pq_preset *pq_preset_of(enum pq_like like);

/* Return true if a preset supports a code type, or a rule for zero points. */
bool pq_preset_has_code(const struct pq_preset *preset, enum pq_type code);
bool pq_preset_has_rule(const struct pq_preset *preset, enum pq_rule rule);

/* Return the default rule for zero points. It is symmetric for signed codes if the preset
 * supports symmetric parameters, else asymmetric. */
enum pq_rule pq_usual_rule(enum pq_like like, enum pq_type code);

/* Arguments of a formula, except the range of the data. */
struct pq_wanted {
    const struct pq_preset *preset;
    enum pq_type real, scale;
    double lowest, highest; /* limits of the codes */
    bool symmetric;
    bool unsigned_byte; /* the code type is uint8 */
    bool is_signed;
    bool spans_type; /* codes have the complete range of an 8-bit or 16-bit type */
};
struct pq_wanted pq_wanted_of(const struct pq_choice *choice);

struct pq_pair {
    double scale, zero;
};

/* Return the scale and zero point for finite values from `lo` to `hi`. The range includes
 * 0. The scale is positive, finite, and exact in the type of scales. */
struct pq_pair pq_preset_pair(const struct pq_wanted *wanted, double lo, double hi);

/* Compute at most PQ_CHOSEN pairs for float32 data and float32 scales. Zero points are
 * stored modulo 2^32. The function writes both arrays up to a multiple of 8 elements. It
 * returns false if a range needs pq_preset_pair(). The arrays are then undefined. */
bool pq_preset_pairs(const struct pq_wanted *wanted, size_t n, const float *los,
                     const float *his, float *scale, uint32_t *zero);

#endif
