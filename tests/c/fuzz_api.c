/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check the public functions. Each input, a sequence of bytes, determines a call: a valid
 * call on random views, or a call with an invalid member. All instruction sets must return
 * an equal status and write equal results. The results must equal the results of a loop
 * over single elements (naive() in calls.c) if the loop supports the call. A call may write
 * only to elements of the output. A call with an error must write nothing.
 *
 * `make fuzz` builds this file for clang's fuzzer, which provides the inputs. `make check`
 * builds a program with random inputs: `fuzz_api "random inputs" CASE COUNT`.
 */
#include <fenv.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "kernels/kernels.h"
#include "oracle.h"
#include "types.h"

#if defined(__x86_64__)
#  include <xmmintrin.h>
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MARGIN = 64, FEW_PARTS = 8 };

enum op { QUANTIZE, DEQUANTIZE, REPACK, DYNAMIC, MINMAX, ZEROS_WITHIN, REQUANTIZE };

#define TYPE(type, ...) PQ_##type,
static const enum pq_type narrow[] = {PQ_FOR_NARROW(TYPE) PQ_FOR_FLOAT(TYPE)};
/* The first eight types have 8, 16, 32 or 64 bits. */
static const enum pq_type integers[] = {PQ_FOR_CODE(TYPE) PQ_FOR_32_BIT(TYPE) PQ_I64,
                                        PQ_U64, PQ_FOR_NARROW(TYPE)};
#undef TYPE

#define PICK(types) pick(types, COUNT(types))

/* ---- memory that must not change ---- */

/* A copy of the memory of a view, and of up to MARGIN bytes before and after the view. */
struct kept {
    unsigned char *at;
    size_t bytes;
    unsigned char copy[ARENA];
};

static struct kept kept_in, kept_out, kept_scale, kept_zero, kept_offset;

static void keep(struct kept *kept, const struct view *view, const struct guarded *arena)
{
    const size_t before = (size_t)(view->lowest - arena->base);
    const size_t after = arena->size - before - view->bytes;
    const size_t low = before < MARGIN ? before : MARGIN;
    kept->at = view->lowest - low;
    kept->bytes = low + view->bytes + (after < MARGIN ? after : MARGIN);
    memcpy(kept->copy, kept->at, kept->bytes);
}

static int is_kept(const struct kept *kept)
{
    return memcmp(kept->at, kept->copy, kept->bytes) == 0;
}

static void restore(const struct kept *kept)
{
    memcpy(kept->at, kept->copy, kept->bytes);
}

/* Restore the arrays that receive extrema or parameters, before the next call. */
static void restore_cells(void)
{
    restore(&kept_scale);
    restore(&kept_zero);
}

/* Return 1 if the extrema or parameters that a call wrote with table `i` equal the results
 * of the call with table 0. */
static int are_equal_cells(int i)
{
    static unsigned char scale[ARENA], zero[ARENA];
    if (i == 0) {
        memcpy(scale, kept_scale.at, kept_scale.bytes);
        memcpy(zero, kept_zero.at, kept_zero.bytes);
    }
    return memcmp(scale, kept_scale.at, kept_scale.bytes) == 0 &&
           memcmp(zero, kept_zero.at, kept_zero.bytes) == 0;
}

/* ---- floating-point control state ---- */

struct control {
    uint64_t control, flags;
};

#if defined(__x86_64__)

static struct control get_control(void)
{
    return (struct control){_mm_getcsr(), 0};
}

static void set_control(struct control c)
{
    _mm_setcsr((unsigned)c.control);
}

/* Values of MXCSR. The fields are FTZ 0x8000, rounding 0x6000, exception masks 0x1f80, DAZ
 * 0x40 and exception flags 0x3f. */
static const struct control controls[] = {
    {0x9fc0, 0}, {0x9f80, 0}, {0x1fc0, 0}, {0x3f80, 0}, {0x5f80, 0}, {0x7f80, 0},
    {0xffc0, 0}, {0x1fbf, 0}, {0x1f95, 0}, {0x0000, 0}, {0xe060, 0},
};

#elif defined(__aarch64__)

static struct control get_control(void)
{
    struct control c;
    __asm__ volatile("mrs %0, fpcr" : "=r"(c.control));
    __asm__ volatile("mrs %0, fpsr" : "=r"(c.flags));
    return c;
}

static void set_control(struct control c)
{
    __asm__ volatile("msr fpcr, %0" ::"r"(c.control) : "memory");
    __asm__ volatile("msr fpsr, %0" ::"r"(c.flags) : "memory");
}

/* Values of FPCR and FPSR. FPCR has the fields AHP 1 << 26, DN 1 << 25, FZ 1 << 24,
 * rounding 3 << 22 and FZ16 1 << 19. The exception flags of FPSR are 0x9f. */
static const struct control controls[] = {
    {1 << 24, 0}, {1 << 25, 0}, {1 << 26, 0}, {1 << 19, 0},        {1 << 22, 0},
    {2 << 22, 0}, {3 << 22, 0}, {0, 0x9f},    {0x7fu << 20, 0x15},
};

#else

static struct control get_control(void)
{
    return (struct control){(uint64_t)fegetround(), 0};
}

static void set_control(struct control c)
{
    fesetround((int)c.control);
}

#  if defined(FE_UPWARD)
static const struct control controls[] = {{FE_UPWARD, 0}, {FE_TOWARDZERO, 0}};
#  else /* WebAssembly cannot change the rounding mode */
static const struct control controls[] = {{FE_TONEAREST, 0}};
#  endif

#endif

/* ---- calls ---- */

static int has_control; /* 0 if CHECK_NO_CONTROL forbids control states */
static int is_large;    /* 1 if most calls are larger than a tile */
static struct call call;
static struct view *const views[] = {&call.in, &call.out, &call.scale, &call.zero,
                                     &call.offset};
static struct {
    const struct pq_args *args;
    int part, parts;     /* the part to run and the number of parts, if either is not 0 */
    int refused;         /* 1 if the call must return an error */
    int known;           /* 1 if naive() can compute the expected result */
    unsigned no_kernels; /* 1 to pass NULL instead of the kernels */
    const struct pq_choice *choice; /* argument of pq_dynamic_quantize() */
    /* control state during a call, or NULL for the usual state */
    const struct control *control;
} use;

/* Run a statement in the control state `use.control`, which must not change. */
#define UNDER_CONTROL(statement)                                                           \
    do {                                                                                   \
        const struct control mine_ = get_control(), *const c_ = use.control;               \
        if (c_ != NULL) {                                                                  \
            set_control(*c_);                                                              \
        }                                                                                  \
        statement;                                                                         \
        const struct control after_ = get_control();                                       \
        set_control(mine_);                                                                \
        CHECK(c_ == NULL || (after_.control == c_->control && after_.flags == c_->flags),  \
              "%s: control %#llx became %#llx", #statement,                                \
              (unsigned long long)c_->control, (unsigned long long)after_.control);        \
    } while (0)

/* Run the parts of a call, from the last part to the first. If parts fail, `status` becomes
 * the status of the last failure. */
#define RUN_PARTS(status, parts, call)                                                     \
    for (int part = (parts) - 1; part >= 0; part--) {                                      \
        enum pq_status one_;                                                               \
        UNDER_CONTROL(one_ = call);                                                        \
        status = one_ != PQ_OK ? one_ : status;                                            \
    }

static enum pq_type draw_code(void)
{
    return random_chance(60) ? pick(integers, 8) : PICK(narrow);
}

/* Choose a random view for the input or output of the call. If `may_pack` is 1, the
 * elements can be stored in words or with bit strides. */
static void draw_elements(struct view *view, const struct guarded *where, enum pq_type type,
                          enum layout layout, int may_pack)
{
    const int has_words = pq_type_bits(type) <= 8 || type == PQ_I32;
    if (may_pack && has_words && call.args.ndim > 0 && random_chance(30)) {
        draw_words(view, where, call.args.ndim, call.shape, type, layout);
    } else if (may_pack && pq_type_bits(type) < 8 && random_chance(60)) {
        draw_bits(view, where, call.args.ndim, call.shape, type,
                  random_chance(50) ? PLAIN : layout);
    } else {
        draw_view(view, where, call.args.ndim, call.shape, type, layout);
    }
}

/* Append dimensions of one element to the call, up to PQ_MAX_NDIM dimensions, with any
 * strides and block sizes. */
static void add_dimensions(void)
{
    const int first = call.args.ndim;
    const int ndim = random_chance(50) ? PQ_MAX_NDIM : first + (int)random_below(9);
    for (int d = first; d < ndim; d++) {
        for (size_t v = 0; v < COUNT(views); v++) {
            views[v]->strides[d] = random_chance(50)   ? 0
                                   : random_chance(50) ? random_between(-99, 99)
                                   : random_chance(50) ? PTRDIFF_MAX
                                                       : PTRDIFF_MIN;
        }
        call.shape[d] = 1;
        call.counts[d] = 1;
        call.selects[d] = 0;
        call.block[d] = random_chance(80) ? 1 : PTRDIFF_MAX;
    }
    call.args.ndim = ndim;
}

static size_t some_size(void)
{
    if (is_large) {
        return usual_size();
    }
    /* Calls seldom exceed a tile, because larger calls run a hundred times as long. */
    return !random_chance(4) ? 70 : random_chance(15) ? USUAL_ELEMENTS : 1300;
}

static enum layout draw_layout(void)
{
    return random_chance(40) ? PLAIN : random_chance(50) ? GAPPED : BROADCAST;
}

static void draw_quantization(int quantize)
{
    const enum pq_type real = quantize && random_chance(10) ? PQ_I32 : pick(reals, REALS);
    const enum pq_type code = draw_code();
    const enum layout layout = draw_layout(), out = layout == PLAIN ? PLAIN : GAPPED;
    draw_elements(&call.in, &memory.in, quantize ? real : code, layout, !quantize);
    draw_elements(&call.out, &memory.out, quantize ? code : real, out, quantize);
    draw_options(&call, code, quantize);
    const enum pq_type scale = random_chance(60) ? PQ_F32
                               : random_chance(25)
                                   ? code
                                   : (enum pq_type)(1 + random_below(PQ_TYPE_COUNT - 1));
    const enum pq_type zero = random_chance(50) ? code : PICK(integers);
    draw_params(&call, draw_layout(), scale, zero, random_chance(75));
    if (call.in.array.type != PQ_I32 && random_chance(50)) {
        draw_affine(&call, quantize);
    }
    if (!quantize && zero != code && random_chance(20)) { /* sometimes invalid */
        call.args.any_zeros = 0;
        use.known = 0;
    }
}

static void draw_valid(enum op op)
{
    memset(&call.args, 0, sizeof call.args);
    call.in.has_words = call.out.has_words = 0;
    call.args.size = sizeof call.args;
    draw_shape(&call, op != MINMAX || random_chance(80) ? some_size() : usual_size());
    draw_granularity(&call);
    call.out.array = call.zero.array = (struct pq_array){.type = PQ_I8};
    if (op <= DEQUANTIZE) {
        draw_quantization(op == QUANTIZE);
    } else if (op == REPACK) {
        const enum pq_type code = random_chance(75)   ? PICK(narrow)
                                  : random_chance(75) ? PQ_U8
                                  : random_chance(50) ? PQ_I8
                                                      : PQ_I32;
        draw_elements(&call.in, &memory.in, code, draw_layout(), 1);
        draw_elements(&call.out, &memory.out, code, random_chance(50) ? PLAIN : GAPPED, 1);
        if ((code <= PQ_U8 || code == PQ_I32) && !call.in.has_words &&
            !call.out.has_words) {
            use.known = 0; /* repack rejects calls without packed input or output */
        }
        draw_params(&call, PLAIN, PQ_F32, code, 0);
    } else if (op == MINMAX) {
        draw_elements(&call.in, &memory.in, pick(reals, REALS), draw_layout(), 0);
        draw_view(&call.scale, &memory.scale, call.args.ndim, call.counts, PQ_F64, ALIGNED);
        clear_unselected(&call, &call.scale);
        call.zero = call.scale;
        call.zero.lowest = memory.zero.base + (call.scale.lowest - memory.scale.base);
        call.zero.array.data =
            call.zero.lowest + ((unsigned char *)call.scale.array.data - call.scale.lowest);
        call.zero.array.strides = call.zero.strides;
    } else {
        draw_view(&call.in, &memory.in, call.args.ndim, call.shape, PQ_I8, PLAIN);
        draw_params(&call, draw_layout(), PQ_F32, PICK(integers), 1);
    }
    call.parts = random_chance(60) ? 1 : (int)random_between(1, FEW_PARTS);
    if (random_chance(1)) {
        call.parts = INT_MAX;
    }
    if (random_chance(10)) {
        add_dimensions();
    }
    collect_args(&call);
}

/* Set some zero points to numbers out of range, or to numbers that float64 does not
 * represent. The call can then be invalid, and naive() does not support these zero
 * points. */
static void strew_zeros(void)
{
    const struct pq_array *zero = &call.zero.array;
    if (zero->data == NULL || call.zero.bytes == 0 || !pq_is_integer(zero->type) ||
        pq_type_bits(zero->type) < 8) {
        return;
    }
    EACH_INDEX(index, call.args.ndim, call.counts) {
        if (random_chance(20)) {
            const struct limits own = limits_of(zero->type);
            const uint64_t far =
                random_chance(50) ? random_bits() : (uint64_t)draw_integer(own.lo, own.hi);
            put_element(zero, element_at(zero, call.args.ndim, index, NULL), far);
        }
    }
    use.known = 0;
}

static void fill(enum op op)
{
    if (op == QUANTIZE || op == DEQUANTIZE) {
        fill_params(&call, op == QUANTIZE);
        fill_input(&call, op == QUANTIZE);
    } else if (op == REPACK) {
        fill_input(&call, 0);
    } else if (op == ZEROS_WITHIN) {
        fill_params(&call, 0);
    } else { /* for MINMAX: more NaN and infinities if there are any */
        const int tame = random_chance(60);
        EACH_INDEX(index, call.args.ndim, call.shape) {
            unsigned char *at = element_at(&call.in.array, call.args.ndim, index, NULL);
            do {
                put_element(&call.in.array, at, draw_real(call.in.array.type, 0.1, 1000));
            } while (tame && !isfinite(real_at(&call.in.array, at)));
        }
    }
    for (size_t i = 0; i < call.out.bytes && call.out.array.data != NULL; i += 8) {
        const uint64_t bits = random_bits();
        const size_t m = call.out.bytes - i < 8 ? call.out.bytes - i : 8;
        memcpy(call.out.lowest + i, &bits, m);
    }
}

/* ---- invalid calls ---- */

static ptrdiff_t no_size(void)
{
    static const ptrdiff_t values[] = {PTRDIFF_MAX,     PTRDIFF_MIN,     PTRDIFF_MAX / 2,
                                       PTRDIFF_MIN / 2, PTRDIFF_MAX / 8, PTRDIFF_MIN / 8,
                                       PTRDIFF_MIN + 1};
    return values[random_below(COUNT(values))];
}

static struct pq_array *any_array(struct pq_args *args)
{
    struct pq_array *const arrays[] = {&args->in,    &args->out,    &args->scale,
                                       &args->zero,  &args->lowest, &args->highest,
                                       &args->offset};
    return arrays[random_below(COUNT(arrays))];
}

/* Set a random pointer of the arguments, required or optional, to NULL. */
static void take_away(struct pq_args *args)
{
    struct pq_array *const array = any_array(args);
    switch (random_below(5)) {
    case 0:
        args->shape = NULL;
        use.refused = use.refused || args->ndim > 0;
        break;
    case 1:
        args->block = NULL; /* `ndim` is the only error */
        args->ndim = -1;
        use.refused = 1;
        break;
    case 2:
        array->strides = NULL;
        break;
    default:
        array->data = NULL;
        break;
    }
}

/* Set a random stride of a view to a number at the limits of ptrdiff_t. */
static void stretch(void)
{
    struct view *const view = views[random_below(COUNT(views))];
    if (call.args.ndim > 0) {
        const size_t d = random_below((size_t)call.args.ndim);
        view->strides[d] = no_size();
    }
}

/* Set a random type of an array, unless elements of this type are larger than before. */
static void retype(struct pq_array *array)
{
    const enum pq_type other = (enum pq_type)random_below(PQ_TYPE_COUNT);
    if (array->bit_strides == NULL && pq_type_size(other) <= pq_type_size(array->type)) {
        array->type = other;
    }
}

/* Set `size` to a size that no version of struct pq_args has. */
static void resize(struct pq_args *args)
{
    static const size_t sizes[] = {0, 1, sizeof(size_t),
                                   offsetof(struct pq_args, in_layout) - 1, SIZE_MAX};
    args->size = sizes[random_below(COUNT(sizes))];
    use.refused = 1;
}

/* Change a member of a layout so that the layout is invalid. */
static void mangle(struct pq_layout *layout)
{
    enum { VALUES = 5 };
    static const struct {
        size_t member;
        int values[VALUES];
    } rows[] = {
        {offsetof(struct pq_layout, axis), {-1, PQ_MAX_NDIM, INT_MAX, INT_MIN, 9999}},
        {offsetof(struct pq_layout, bits), {-1, 9, 16, INT_MAX, INT_MIN}},
        {offsetof(struct pq_layout, word_bits), {0, -8, 7, 12, INT_MAX}},
        {offsetof(struct pq_layout, word_bits), {24, 128, INT_MIN, -1, 65}},
        {offsetof(struct pq_layout, group), {0, -1, 257, INT_MAX, INT_MIN}},
    };
    static unsigned char order[256];
    const size_t row = random_below(COUNT(rows) + 3);
    use.refused = 1;
    if (row < COUNT(rows)) {
        int *const member = (int *)(void *)((char *)layout + rows[row].member);
        *member = rows[row].values[random_below(VALUES)];
        layout->order = member == &layout->group ? order : layout->order;
    } else if (row == COUNT(rows)) {
        layout->size = random_chance(50) ? 0 : sizeof *layout - 1;
    } else if (row == COUNT(rows) + 1) {
        layout->axis = call.args.ndim;
    } else {
        layout->word_stride |= 1;
    }
}

/* Set a random affine option to a value that is invalid for most calls. */
static void spoil_affine(struct pq_args *args, enum op op)
{
    const int is_f64 = pq_is_64_bit(op == QUANTIZE ? args->out.type : args->in.type);
    static const int64_t far[] = {INT64_MIN, INT64_MAX, -129, 256, INT64_C(1) << 32};
    static int64_t fills[1];
    const int code = op == QUANTIZE || op == DEQUANTIZE, checked = op != ZEROS_WITHIN;
    use.refused = checked;
    switch (random_below(5)) {
    case 0:
        args->fills = random_chance(50) ? 1 : SIZE_MAX;
        args->fill = NULL;
        break;
    case 1:
        args->beyond = (enum pq_beyond)no_type();
        break;
    case 2:
        fills[0] = far[random_below(5)];
        args->fills = 1;
        args->fill = fills;
        use.refused =
            code ? !is_f64 && (fills[0] == INT64_MIN || fills[0] == INT64_MAX) : checked;
        break;
    case 3:
        args->lowest_code = far[random_below(5)];
        args->highest_code = INT64_MIN;
        use.refused = op == QUANTIZE ? !is_f64 : checked;
        break;
    default:
        args->beyond = PQ_WRAP;
        args->lowest_code = 1;
        args->highest_code = 2;
        break;
    }
}

/* Change a random member or array of the arguments. Most changes make the call invalid. */
static void spoil(struct pq_args *args, enum op op)
{
    const int ndim = call.args.ndim;
    const size_t d = ndim > 0 ? random_below((size_t)ndim) : 0;
    struct pq_array *const array = any_array(args);
    if (random_chance(30) && (args->in_layout != NULL || args->out_layout != NULL)) {
        mangle(args->in_layout != NULL ? &call.in.words : &call.out.words);
        return;
    }
    if (random_chance(10)) {
        spoil_affine(args, op);
        return;
    }
    switch (random_below(11)) {
    case 0:
        take_away(args);
        break;
    case 1:
        args->ndim = (const int[]){-1, INT_MIN, PQ_MAX_NDIM + 1, INT_MAX}[random_below(4)];
        use.refused = 1;
        break;
    case 2:
        if (ndim > 0) {
            call.shape[d] = random_chance(50) ? -1 : no_size();
            use.refused = 1;
        }
        break;
    case 3:
        if (ndim > 0 && args->block != NULL) {
            call.block[d] =
                random_chance(50) ? 0 : PTRDIFF_MIN + (ptrdiff_t)random_below(2);
            use.refused = op != REPACK; /* repack ignores blocks */
        }
        break;
    case 4:
        stretch();
        break;
    case 5:
        array->type = (enum pq_type)no_type();
        break;
    case 6:
        args->round = (enum pq_round)no_type();
        use.refused = use.refused || op != ZEROS_WITHIN;
        args->precision = random_chance(50) ? (enum pq_type)no_type() : args->precision;
        break;
    case 7:
        use.part = random_chance(50) ? INT_MIN : call.parts;
        use.parts = random_chance(50) ? call.parts : (int)random_below(2) - 1;
        break;
    case 8:
        retype(array);
        break;
    case 9:
        if (pq_type_bits(array->type) >= 8 && array->bit_strides == NULL) {
            array->bit_strides = call.in.strides;
        } else {
            use.no_kernels = 1;
        }
        break;
    default:
        resize(args);
        break;
    }
}

/* Return a copy of the arguments in an older or a newer version of the struct. Bytes after
 * the end of an older struct are 0 or 0xff. Additional members of a newer struct are 0. */
static const struct pq_args *of_another_version(const struct pq_args *args)
{
    static union {
        struct pq_args args;
        unsigned char bytes[2 * sizeof(struct pq_args)];
    } given;
    const size_t layouts = offsetof(struct pq_args, in_layout);
    const size_t affine = offsetof(struct pq_args, offset);
    const size_t least =
        args->in_layout == NULL && args->out_layout == NULL ? layouts : affine;
    const unsigned char *const bytes = (const unsigned char *)args;
    size_t size = sizeof *args; /* number of bytes up to the last nonzero byte */
    while (size > least && bytes[size - 1] == 0) {
        size--;
    }
    size += random_below(sizeof given - size);
    memset(&given, random_chance(50) ? 0xff : 0, sizeof given);
    if (size > sizeof *args) {
        memset(given.bytes + sizeof *args, 0, size - sizeof *args);
    }
    memcpy(&given, args, size < sizeof *args ? size : sizeof *args);
    given.args.size = size;
    return &given.args;
}

/* ---- quantize, dequantize, repack ---- */

static enum pq_status run_plainly(const struct pq_kernels *k, enum op op, int part,
                                  int parts)
{
    static struct pq_prepared plan = {.size = sizeof plan};
    const struct pq_args *const args = use.args;
    if (op == REPACK) {
        return pq_repack(k, args, part, parts);
    }
    if (op == DYNAMIC) {
        return pq_dynamic_quantize(k, args, use.choice, part, parts);
    }
    if (args == NULL || (call.n + (size_t)part) % 2 == 0) {
        return op == QUANTIZE ? pq_quantize(k, args, part, parts)
                              : pq_dequantize(k, args, part, parts);
    }
    const enum pq_status status = op == QUANTIZE ? pq_prepare_quantize(&plan, k, args)
                                                 : pq_prepare_dequantize(&plan, k, args);
    const enum pq_status ran = pq_run(&plan, args->in.data, args->out.data, part, parts);
    CHECK(status == PQ_OK || ran == PQ_ERR_NULL, "a plan that failed was run: %d",
          (int)ran);
    return status != PQ_OK ? status : ran;
}

static enum pq_status run_once(const struct pq_kernels *k, enum op op, int part, int parts)
{
    enum pq_status status;
    UNDER_CONTROL(status = run_plainly(use.no_kernels ? NULL : k, op, part, parts));
    return status;
}

/* Return 1 if a call with this status was valid and has written its results. */
static int has_run(enum pq_status status)
{
    return status == PQ_OK || status == PQ_ERR_BEYOND;
}

static enum pq_status run_all(const struct pq_kernels *k, enum op op)
{
    enum pq_status status = PQ_OK;
    if (use.parts != 0 || use.part != 0) {
        return run_once(k, op, use.part, use.parts);
    }
    /* If there are many parts, run only the first n + 1, because the parts after part n
     * have no elements. */
    const int some = call.parts > FEW_PARTS ? (int)call.n + 1 : call.parts;
    const int first = call.parts > FEW_PARTS ? 0 : (int)random_below((size_t)call.parts);
    for (int p = 0; p < some && has_run(status); p++) {
        const enum pq_status next = run_once(k, op, (first + p) % call.parts, call.parts);
        status = next == PQ_OK ? status : next;
    }
    return status;
}

/* Check pq_count_beyond(): the number of elements out of range, and the index of the first
 * of the elements. */
static void judge_count(const struct pq_kernels *k, enum pq_status ran, int known,
                        struct out_of_range out_of_range)
{
    const enum pq_status due = has_run(ran) ? PQ_OK : ran;
    size_t count = 99, first = 99;
    const enum pq_status status =
        pq_count_beyond(use.no_kernels ? NULL : k, use.args, &count, &first);
    CHECK(status == due, "%s: count_beyond: %d, not %d", k->name, (int)status, (int)due);
    CHECK(!known || status != PQ_OK ||
              (count == out_of_range.count && first == out_of_range.first),
          "%s: %zu from %zu on are out of range, not %zu from %zu", k->name, count, first,
          out_of_range.count, out_of_range.first);
}

/* Run the parts of a call with each table `k`. Compare the status with `due_status`, and
 * the first `bytes` bytes of `got` with `due`. */
#define ON_EACH_TABLE(what, due_status, got, due, bytes, parts, call)                      \
    for (int i = 0; tables[i] != NULL; i++) {                                              \
        const struct pq_kernels *const k = tables[i];                                      \
        enum pq_status status = PQ_OK;                                                     \
        memset(got, 0x5a, bytes);                                                          \
        RUN_PARTS(status, parts, call);                                                    \
        CHECK(status == (due_status), "%s: %s: %d, not %d", k->name, what, (int)status,    \
              (int)(due_status));                                                          \
        CHECK(status != PQ_OK || memcmp(got, due, bytes) == 0, "%s: %s: other results",    \
              k->name, what);                                                              \
    }

/* ---- fake_quantize, with the arguments of a quantize call, but no error policies ---- */

static struct {
    struct pq_args args;
    struct pq_fake fake;
    enum pq_status due;
    size_t bytes; /* number of bytes of the results, with gaps */
    unsigned char expected[2 * ARENA], numbers[2 * ARENA];
    unsigned char due_mask[ARENA], mask[ARENA];
} pass;

/* Compute the expected results of fake_quantize: quantize and dequantize by two calls with
 * the scalar kernels. Return the first error. */
static enum pq_status go_there_and_back(void)
{
    static unsigned char codes[ARENA];
    ptrdiff_t strides[PQ_MAX_NDIM];
    struct pq_args args = pass.args;
    set_dense_strides(strides, args.ndim, args.shape,
                      (ptrdiff_t)pq_type_size(pass.fake.code));
    args.out = (struct pq_array){codes, strides, pass.fake.code, 0, NULL};
    const enum pq_status status = pq_quantize(&pq_kernels_scalar, &args, 0, 1);
    args.in = args.out;
    args.out = pass.args.out;
    args.out.data = pass.expected;
    /* dequantize accepts only the default values of these options */
    args.round = PQ_HALF_EVEN;
    args.precision = PQ_NO_TYPE;
    args.overflow = 0;
    args.lowest_code = args.highest_code = 0;
    args.seed = args.start = 0;
    return status != PQ_OK ? status : pq_dequantize(&pq_kernels_scalar, &args, 0, 1);
}

/* Compute the expected mask. Quantize each element in a separate call, which returns an
 * error if the element is out of range. */
static void find_due_mask(void)
{
    const struct pq_args *const all = &pass.args;
    size_t i = 0;
    EACH_INDEX(index, all->ndim, all->shape) {
        char code[8];
        struct pq_args one = *all;
        one.ndim = 0;
        one.fills = 0;
        one.overflow = 0;
        one.beyond = PQ_REFUSE;
        one.refuse_nan = 1;
        one.start = all->start + i;
        one.in.data = element_at(&all->in, all->ndim, index, NULL);
        one.scale.data = element_at(&all->scale, all->ndim, index, all->block);
        if (all->zero.data != NULL) {
            one.zero.data = element_at(&all->zero, all->ndim, index, all->block);
        }
        if (all->offset.data != NULL) {
            one.offset.data = element_at(&all->offset, all->ndim, index, all->block);
        }
        one.out = (struct pq_array){.data = code, .type = pass.fake.code};
        pass.due_mask[i++] = pq_quantize(&pq_kernels_scalar, &one, 0, 1) == PQ_OK;
    }
}

/* Check pq_fake_quantize() with the arguments of the call. The results are in C order,
 * sometimes with gaps. Some calls have a mask. */
static void check_fakes(void)
{
    static ptrdiff_t strides[PQ_MAX_NDIM], bytes[PQ_MAX_NDIM];
    struct pq_args *const args = &pass.args;
    const ptrdiff_t size = (ptrdiff_t)pq_type_size(use.args->in.type);
    const ptrdiff_t step = random_chance(30) ? 2 * size : size;
    *args = *use.args;
    if (args->size != sizeof *args || call.n > ARENA / sizeof(double) ||
        call.parts > FEW_PARTS || !is_real_type(args->in.type)) {
        return;
    }
    set_dense_strides(strides, args->ndim, args->shape, step);
    set_dense_strides(bytes, args->ndim, args->shape, 1);
    pass.bytes = call.n * (size_t)step;
    pass.fake = (struct pq_fake){.size = sizeof pass.fake, .code = args->out.type};
    args->out = (struct pq_array){pass.numbers, strides, args->in.type, 0, NULL};
    args->out_layout = NULL;
    args->beyond = PQ_SATURATE;
    args->refuse_nan = args->zero_first = args->narrow_first = 0;
    /* fake_quantize supports no zero points for narrow floats */
    if (pq_is_narrow_float(pass.fake.code)) {
        args->zero.data = NULL;
    }
    memset(pass.expected, 0x5a, pass.bytes);
    pass.due = go_there_and_back();
    if (pass.due == PQ_OK && call.n > 0 && call.n < 500 && random_chance(40)) {
        pass.fake.mask = (struct pq_array){pass.mask, bytes, PQ_U8, 0, NULL};
        args->precision = args->precision == PQ_F64 ? PQ_F64 : PQ_NO_TYPE;
        pass.due = go_there_and_back();
        find_due_mask();
    }
    ON_EACH_TABLE("fake", pass.due, pass.numbers, pass.expected, pass.bytes, call.parts,
                  pq_fake_quantize(k, args, &pass.fake, part, call.parts))
    if (pass.fake.mask.data != NULL) {
        ON_EACH_TABLE("mask", pass.due, pass.mask, pass.due_mask, call.n, call.parts,
                      pq_fake_quantize(k, args, &pass.fake, part, call.parts))
    }
}

/* ---- requantize_codes, with the arguments of a quantize call ---- */

static struct {
    struct pq_args from, to;
    ptrdiff_t strides[PQ_MAX_NDIM], numbers[PQ_MAX_NDIM], outs[PQ_MAX_NDIM];
    ptrdiff_t scales[PQ_MAX_NDIM], block[PQ_MAX_NDIM];
    float scale[MOST_ELEMENTS], offset[MOST_ELEMENTS];
    _Alignas(8) unsigned char in[ARENA], number[ARENA], due[ARENA], out[ARENA];
} recode;

/* Choose random codes of `type` as the input of pq_requantize_codes(). The codes are in C
 * order, or reversed along one axis. Blocks along this axis have separate scales. */
static void draw_codes(enum pq_type type)
{
    const int ndim = recode.to.ndim;
    const ptrdiff_t *const shape = recode.to.shape;
    const int chosen = ndim > 0 ? (int)random_below((size_t)ndim) : 0;
    const ptrdiff_t n =
        set_dense_strides(recode.strides, ndim, shape, (ptrdiff_t)pq_type_size(type));
    set_dense_strides(recode.numbers, ndim, shape, sizeof(float));
    set_dense_strides(recode.outs, ndim, shape,
                      (ptrdiff_t)pq_type_size(recode.to.out.type));
    for (int d = 0; d < ndim; d++) {
        recode.block[d] = d == chosen ? random_between(1, shape[d] + 1) : 1;
        recode.scales[d] = d == chosen && random_chance(70) ? (ptrdiff_t)sizeof(float) : 0;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        recode.in[i] = (unsigned char)random_bits();
    }
    for (ptrdiff_t i = 0; i < (ndim > 0 ? shape[chosen] : 1); i++) {
        recode.scale[i] = (float)random_unit() + 0.1f;
        recode.offset[i] = (float)random_unit();
    }
    const size_t first = chosen < ndim && shape[chosen] > 0 && random_chance(30)
                             ? (size_t)((shape[chosen] - 1) * recode.strides[chosen])
                             : 0;
    if (first != 0) {
        recode.strides[chosen] *= -1;
    }
    recode.from = (struct pq_args){
        .size = sizeof recode.from,
        .ndim = ndim,
        .shape = shape,
        .block = recode.block,
        .in = {.data = recode.in + first, .strides = recode.strides, .type = type},
        .out = {.data = recode.number, .strides = recode.numbers, .type = PQ_F32},
        .scale = {.data = recode.scale, .strides = recode.scales, .type = PQ_F32},
    };
    if (random_chance(50)) {
        recode.from.offset = recode.from.scale;
        recode.from.offset.data = recode.offset;
    }
    recode.to.in = recode.from.out;
    recode.to.out = (struct pq_array){recode.due, recode.outs, recode.to.out.type, 0, NULL};
}

/* Run a call with each table. Compare the status with `due`, and the codes with
 * `recode.due`. If `from` is NULL, the call is pq_quantize(), else
 * pq_requantize_codes(). */
static void compare_codes(const struct pq_args *from, enum pq_status due, const char *what)
{
    const size_t bytes = call.n * pq_type_size(recode.to.out.type);
    recode.to.out.data = recode.out;
    ON_EACH_TABLE(what, due, recode.out, recode.due, bytes, call.parts,
                  from != NULL ? pq_requantize_codes(k, from, &recode.to, part, call.parts)
                               : pq_quantize(k, &recode.to, part, call.parts))
    recode.to.out.data = recode.due;
}

/* Compare pq_requantize_codes() with two calls, pq_dequantize() and pq_quantize() with the
 * scalar kernels. For 8-bit codes, also call pq_quantize() with the codes as input, and
 * compare with the results for equal float32 numbers. */
static void check_codes_to_codes(void)
{
    static const enum pq_type types[] = {PQ_U8,  PQ_I8,  PQ_U8,  PQ_I8,       PQ_I16,
                                         PQ_U16, PQ_I32, PQ_I64, PQ_F8E4M3FN, PQ_I4};
    struct pq_args *const to = &recode.to;
    *to = *use.args;
    if (to->size != sizeof *to || call.n > ARENA / sizeof(double) ||
        call.parts > FEW_PARTS || !is_real_type(to->in.type)) {
        return;
    }
    to->out_layout = NULL;
    to->beyond = to->beyond == PQ_REFUSE ? PQ_SATURATE : to->beyond;
    to->refuse_nan = 0;
    to->seed = to->start = 0;
    if (to->round == PQ_STOCHASTIC) {
        to->round = PQ_HALF_EVEN;
    }
    draw_codes(PICK(types));
    enum pq_status due = pq_dequantize(&pq_kernels_scalar, &recode.from, 0, 1);
    due = due != PQ_OK ? due : pq_quantize(&pq_kernels_scalar, to, 0, 1);
    compare_codes(&recode.from, due, "requantize_codes");
    if ((recode.from.in.type != PQ_I8 && recode.from.in.type != PQ_U8) ||
        (to->out.type != PQ_I8 && to->out.type != PQ_U8)) {
        return;
    }
    to->inverse = 1;
    to->round = PQ_HALF_EVEN;
    to->beyond = PQ_SATURATE;
    to->fills = 0;
    to->lowest_code = to->highest_code = 0;
    to->precision = PQ_NO_TYPE;
    to->zero_first = to->narrow_first = 0;
    memset(recode.scales, 0, sizeof recode.scales);
    recode.scale[0] = 1;
    recode.from.offset.data = NULL;
    due = pq_dequantize(&pq_kernels_scalar, &recode.from, 0, 1);
    due = due != PQ_OK ? due : pq_quantize(&pq_kernels_scalar, to, 0, 1);
    to->in = recode.from.in;
    compare_codes(NULL, due, "quantize codes");
}

/* Check that no byte is written by two parts, because parts in different threads could lose
 * bits of a shared byte. A part writes a byte if a byte of 0 or 0xff changes. In arrays of
 * one dimension, no word may be written by two parts. */
static void check_parts_disjoint(const struct pq_kernels *k, enum op op, unsigned char *out,
                                 size_t bytes)
{
    static unsigned char zeros_left[ARENA], writer[ARENA];
    const ptrdiff_t stride = call.out.has_words ? call.out.words.word_stride : 0;
    const size_t unit = call.args.ndim == 1 && stride > 0 ? (size_t)stride / 8 : 1;
    memset(writer, 0, bytes);
    for (int part = 0; part < call.parts; part++) {
        memset(out, 0, bytes);
        run_once(k, op, part, call.parts);
        memcpy(zeros_left, out, bytes);
        memset(out, 0xff, bytes);
        run_once(k, op, part, call.parts);
        for (size_t i = 0; i < bytes; i++) {
            unsigned char *const known = &writer[i / unit];
            if (zeros_left[i] != 0 || out[i] != 0xff) {
                CHECK(*known == 0 || *known == part + 1,
                      "%s: byte %zu of verb %d has two of %d parts as writers", k->name, i,
                      (int)op, call.parts);
                *known = (unsigned char)(part + 1);
            }
        }
    }
}

static void check_result(enum op op)
{
    static unsigned char expected[ARENA];
    enum pq_status first = PQ_OK;
    char text[1500];
    const int known = use.known && use.args != NULL;
    struct out_of_range out_of_range = {0, 0};
    keep(&kept_out, &call.out, &memory.out);
    keep(&kept_in, &call.in, &memory.in);
    keep(&kept_scale, &call.scale, &memory.scale);
    if (call.zero.array.data != NULL) {
        keep(&kept_zero, &call.zero, &memory.zero);
    }
    if (call.args.offset.data != NULL) {
        keep(&kept_offset, &call.offset, &memory.offset);
    }
    memcpy(expected, kept_out.copy, kept_out.bytes);
    if (known) {
        unsigned char *const lowest = expected + (call.out.lowest - kept_out.at);
        if (op == REPACK) {
            naive_repack(&call, lowest);
        } else {
            out_of_range = naive(&call, op == QUANTIZE, lowest);
        }
    }
    const enum pq_status due = out_of_range.count != 0 ? PQ_ERR_BEYOND : PQ_OK;
    for (int i = 0; tables[i] != NULL; i++) {
        const struct pq_kernels *k = tables[i];
        restore(&kept_out);
        const enum pq_status status = run_all(k, op);
        if (i == 0) {
            first = status;
            if (!known && has_run(status)) {
                memcpy(expected, kept_out.at, kept_out.bytes);
            }
        }
        const int as_expected = memcmp(kept_out.at, expected, kept_out.bytes) == 0;
        if (status != first || (known && status != due) ||
            (use.refused && has_run(status)) || (has_run(status) && !as_expected) ||
            (!has_run(status) && !is_kept(&kept_out))) {
            text[0] = '\0';
            if (known) {
                describe(&call, op == QUANTIZE, text, sizeof text);
            }
            CHECK(0, "verb %d, %s: status %d (first %d), the result is %s, known %d: %s",
                  (int)op, k->name, (int)status, (int)first,
                  as_expected ? "right" : "wrong", known, text);
        }
        CHECK(is_kept(&kept_in) && is_kept(&kept_scale) &&
                  (call.zero.array.data == NULL || is_kept(&kept_zero)) &&
                  (call.args.offset.data == NULL || is_kept(&kept_offset)),
              "verb %d, %s: an input was written", (int)op, k->name);
        if (op == QUANTIZE && use.parts == 0 && use.part == 0) {
            judge_count(k, status, known, out_of_range);
        }
        if (known && call.parts > 1 && call.parts <= FEW_PARTS &&
            random_chance(call.out.has_words ? 100 : 20)) {
            check_parts_disjoint(k, op, call.out.lowest, call.out.bytes);
        }
    }
    restore(&kept_out);
    if (op == QUANTIZE && known) {
        check_fakes();
        check_codes_to_codes();
    }
}

/* ---- extrema, parameters, histograms and error sums ---- */

/* The expected extrema of each group, the number of elements that are not finite, and the
 * index of the first of the elements. */
static struct {
    double lo[ARENA / 8], hi[ARENA / 8];
    size_t nonfinite, first;
} truth;

/* Return the index of the extremum in its array. The index `index` is of an element, or of
 * a group if `block` is NULL. */
static size_t cell_of(const struct pq_array *array, const ptrdiff_t *index,
                      const ptrdiff_t *block)
{
    return (size_t)(element_at(array, call.args.ndim, index, block) - call.scale.lowest) /
           8;
}

/* Compute the expected extrema of each group. NaN in a group makes both extrema NaN. */
static void find_due_extrema(void)
{
    size_t position = 0;
    truth.nonfinite = truth.first = 0;
    for (size_t c = 0; c < call.scale.bytes / 8; c++) {
        truth.lo[c] = get_real(call.scale.lowest, PQ_F64, c);
        truth.hi[c] = get_real(call.zero.lowest, PQ_F64, c);
    }
    EACH_INDEX(index, call.args.ndim, call.shape) {
        const struct pq_array *const in = &call.in.array;
        const double v = real_at(in, element_at(in, call.args.ndim, index, NULL));
        const size_t c = cell_of(&call.args.lowest, index, call.args.block);
        truth.first = !isfinite(v) && truth.nonfinite++ == 0 ? position : truth.first;
        truth.lo[c] = v < truth.lo[c] || v != v ? v : truth.lo[c];
        truth.hi[c] = v > truth.hi[c] || v != v ? v : truth.hi[c];
        position++;
    }
}

/* Compare the extrema with the expected extrema. Extrema of 0 can have any sign. */
static void expect_due_extrema(const struct pq_kernels *k)
{
    for (size_t c = 0; c < call.scale.bytes / 8; c++) {
        const double lo = get_real(call.scale.lowest, PQ_F64, c);
        const double hi = get_real(call.zero.lowest, PQ_F64, c);
        CHECK(lo == truth.lo[c] && hi == truth.hi[c],
              "%s: cell %zu: %a .. %a, not %a .. %a", k->name, c, lo, hi, truth.lo[c],
              truth.hi[c]);
    }
}

/* Check pq_minmax() with one float32 output, which receives the largest magnitudes. */
static void check_magnitudes(const struct pq_kernels *k)
{
    struct pq_args args = *use.args;
    int finite = -1;
    args.lowest.type = PQ_F32;
    args.highest = args.lowest;
    for (size_t c = 0; c < call.scale.bytes / 8; c++) {
        put_bits(call.scale.lowest + 8 * c, PQ_F32, 0, 0);
    }
    const enum pq_status status = pq_minmax(k, &args, &finite);
    CHECK(status == PQ_OK && finite == (truth.nonfinite == 0), "%s: magnitudes: status %d",
          k->name, (int)status);
    for (size_t c = 0; c < call.scale.bytes / 8 && truth.nonfinite == 0; c++) {
        const double most = fmax(0, fmax(-truth.lo[c], truth.hi[c]));
        const double got = get_real(call.scale.lowest + 8 * c, PQ_F32, 0);
        CHECK(got == (double)(float)most, "%s: cell %zu: %a, not %a", k->name, c, got,
              most);
    }
}

/* Compare the parameters that a call wrote with the result of pq_choose() for the expected
 * extrema of each group. */
static void expect_due_params(const struct pq_args *args, const struct pq_choice *choice)
{
    struct pq_choice alone = *choice;
    const size_t real = pq_type_size(args->scale.type),
                 code = pq_type_size(args->zero.type);
    alone.real = args->in.type;
    EACH_INDEX(index, call.args.ndim, call.counts) {
        unsigned char scale[8], zero[8];
        const size_t c = cell_of(&args->scale, index, NULL);
        UNDER_CONTROL(
            EXPECT(PQ_OK, pq_choose(&alone, 1, &truth.lo[c], &truth.hi[c], scale, zero)));
        CHECK(memcmp(call.scale.lowest + 8 * c, scale, real) == 0 &&
                  memcmp(call.zero.lowest + 8 * c, zero, code) == 0,
              "%s to %s by rule %d: other parameters of %a .. %a", type_name(args->in.type),
              type_name(choice->code), (int)choice->rule, truth.lo[c], truth.hi[c]);
    }
}

/* Choose random options and the output of pq_dynamic_quantize(). Half of the outputs with
 * codes of fewer than 8 bits are packed. */
static void draw_dynamic(struct pq_args *args, const struct pq_choice *choice,
                         ptrdiff_t *strides)
{
    static const enum pq_round rounds[] = {PQ_HALF_EVEN, PQ_HALF_EVEN, PQ_FLOOR,
                                           PQ_STOCHASTIC};
    const int bits = pq_type_bits(choice->code);
    const enum pq_round round = rounds[random_below(COUNT(rounds))];
    args->round =
        pq_is_narrow_float(choice->code) && round == PQ_FLOOR ? PQ_HALF_EVEN : round;
    args->seed = random_chance(50) ? 0 : random_bits();
    args->out = (struct pq_array){.strides = strides, .type = choice->code};
    if (bits < 8 && random_chance(50)) {
        for (int d = 0; d < args->ndim; d++) {
            strides[d] *= bits;
        }
        args->out.bit_strides = strides;
    }
}

static void quantize_by_two_calls(const struct pq_args *given,
                                  const struct pq_choice *choice)
{
    struct pq_args args = *given, plain = *given;
    args.lowest_code = choice->lowest_code;
    args.highest_code = choice->highest_code;
    plain.round = PQ_HALF_EVEN;
    plain.seed = 0;
    if (pq_choose_params(&pq_kernels_scalar, &plain, choice, 0, 1) == PQ_OK) {
        args.zero.data = pq_is_narrow_float(args.out.type) ? NULL : args.zero.data;
        EXPECT(PQ_OK, pq_quantize(&pq_kernels_scalar, &args, 0, 1));
    }
}

/* Return a random array of reals with the shape of the call, in the memory for outputs. If
 * `is_weight` is 1, the reals are from 0 to 1. */
static struct pq_array draw_others(enum pq_type type, int is_weight)
{
    const struct pq_array *const to = &call.out.array;
    const int ndim = call.args.ndim < MOST_NDIM ? call.args.ndim : MOST_NDIM;
    draw_view(&call.out, &memory.out, ndim, call.shape, type, GAPPED);
    EACH_INDEX(index, call.args.ndim, call.shape) {
        put_element(to, element_at(to, call.args.ndim, index, NULL),
                    is_weight ? encode(type, random_unit(), 1, 0) : draw_real(type, 1, 50));
    }
    return *to;
}

/* Check pq_search_params() if `searched` is 1, else pq_dynamic_quantize(). The status must
 * be `right`, the status of pq_choose_params(). All tables must write equal bytes. */
static void check_params_of(const struct pq_args *args, const struct pq_choice *choice,
                            enum pq_status right, int searched)
{
    static unsigned char codes[2][ARENA];
    static const double candidates[] = {1, 0.75, 0.5};
    struct pq_search search = {.size = sizeof search};
    ptrdiff_t strides[PQ_MAX_NDIM];
    const size_t bytes = call.n * pq_type_size(choice->code);
    struct pq_args with = *args;
    const int parts = call.parts > FEW_PARTS ? 1 : call.parts;
    if (searched && random_chance(50)) {
        search.candidates = candidates;
        search.count = COUNT(candidates);
    }
    if (searched && random_chance(50)) {
        search.weights = draw_others(pick(reals, REALS), 1);
    }
    set_dense_strides(strides, args->ndim, args->shape,
                      (ptrdiff_t)pq_type_size(choice->code));
    if (!searched) {
        draw_dynamic(&with, choice, strides);
        memset(codes[0], 0x5a, bytes);
        with.out.data = codes[0];
        quantize_by_two_calls(&with, choice);
    }
    for (int i = 0; tables[i] != NULL; i++) {
        const struct pq_kernels *const k = use.no_kernels ? NULL : tables[i];
        restore_cells();
        with.out.data = memset(codes[1], 0x5a, bytes);
        enum pq_status status = PQ_OK;
        RUN_PARTS(status, parts,
                  searched ? pq_search_params(k, args, choice, &search, part, parts)
                           : pq_dynamic_quantize(k, &with, choice, part, parts));
        CHECK(status == right, "%s: searched %d: %d, not %d", tables[i]->name, searched,
              (int)status, (int)right);
        const int equal =
            are_equal_cells(i) && (searched || memcmp(codes[0], codes[1], bytes) == 0);
        CHECK(status != PQ_OK || equal, "%s: searched %d: other results", tables[i]->name,
              searched);
        if (status == PQ_OK && !searched && parts > 1) {
            const struct pq_args *const all = use.args;
            use.args = &with;
            use.choice = choice;
            check_parts_disjoint(tables[i], DYNAMIC, codes[1], bytes);
            use.args = all;
        }
    }
}

/* Check pq_choose_params(), pq_search_params() and pq_dynamic_quantize(). The calls write
 * scales and zero points to the arrays of extrema. */
static void check_params(enum pq_status extrema, int finite)
{
    const enum pq_status right = extrema != PQ_OK ? extrema
                                 : finite         ? PQ_OK
                                                  : PQ_ERR_NONFINITE;
    if (use.args == NULL || use.args->lowest.type != PQ_F64 ||
        use.args->highest.type != PQ_F64 || (call.n == 0 && !use.known)) {
        return; /* only minmax accepts any strides of an empty array */
    }
    struct pq_args args = *use.args;
    const enum pq_type code = random_chance(70) ? pick(integers, 6) : PICK(narrow);
    struct pq_choice choice = {
        sizeof choice, random_chance(50) ? PQ_NO_TYPE : args.in.type, code,
        pq_is_narrow_float(code) ? PQ_RULE_SYMMETRIC : (enum pq_rule)random_below(3)};
    if (!pq_is_narrow_float(code) && random_chance(30)) {
        const struct limits all = limits_of(code);
        choice.lowest_code = all.lo < -5 ? -5 : all.lo;
        choice.highest_code = all.hi > 6 ? 6 : all.hi;
    }
    args.scale = args.lowest;
    args.scale.type = args.in.type == PQ_F64 ? PQ_F64 : PQ_F32;
    args.zero = args.highest;
    args.zero.type = pq_is_narrow_float(code) ? PQ_I8 : pq_carrier_of(code);
    for (int i = 0; tables[i] != NULL; i++) {
        restore_cells();
        const struct pq_kernels *const k = use.no_kernels ? NULL : tables[i];
        enum pq_status status;
        UNDER_CONTROL(status = pq_choose_params(k, &args, &choice, 0, 1));
        CHECK(status == right, "%s: choose_params: %d, not %d", tables[i]->name,
              (int)status, (int)right);
        CHECK(status == PQ_OK || status == PQ_ERR_NONFINITE ||
                  (is_kept(&kept_scale) && is_kept(&kept_zero)),
              "%s: something was written", tables[i]->name);
        if (status == PQ_OK && use.known) {
            expect_due_params(&args, &choice);
        }
        const int is_equal = are_equal_cells(i);
        CHECK(status != PQ_OK || is_equal, "%s: other parameters", tables[i]->name);
    }
    if (use.known && call.n <= ARENA / sizeof(int32_t)) {
        check_params_of(&args, &choice, right, 0);
        if (call.n < 500 || random_chance(20)) {
            check_params_of(&args, &choice, right, 1);
        }
    }
}

/* Check pq_histogram(), which accepts every input that pq_minmax() accepts. `extrema` and
 * `finite` are the status and the result of pq_minmax(). */
static void check_histogram(enum pq_status extrema, int finite)
{
    static uint32_t counters[PQ_COUNTERS];
    const int ignore = random_chance(50), counts_all = random_chance(20);
    for (int i = 0; tables[i] != NULL; i++) {
        struct pq_counts counts = {.size = sizeof counts,
                                   .ignore_nonfinite = ignore,
                                   .counters = counts_all ? counters : NULL,
                                   .lowest = (double)INFINITY,
                                   .highest = (double)-INFINITY};
        uint64_t page[PQ_PAGE], all = 0;
        const struct pq_kernels *const k = use.no_kernels ? NULL : tables[i];
        enum pq_status status;
        UNDER_CONTROL(status = pq_histogram(k, use.args, &counts, 0, 1));
        const enum pq_status due = finite || ignore ? PQ_OK : PQ_ERR_NONFINITE;
        CHECK(extrema != PQ_OK || status == due, "%s: histogram: %d, not %d",
              tables[i]->name, (int)status, (int)due);
        while (pq_histogram_take(&counts, page) >= 0) {
            for (int place = 0; place < PQ_PAGE; place++) {
                all += page[place];
            }
        }
        if (use.known && status == PQ_OK) {
            CHECK(counts.count + counts.nan + counts.inf == call.n &&
                      all == (counts_all ? counts.count : 0),
                  "%s: histogram: other numbers", tables[i]->name);
        }
    }
}

/* Check pq_measure(), which sums the differences of two arrays. The second array is random,
 * or is the first array. All tables must compute equal sums. */
static void check_measure(enum pq_status extrema)
{
    enum { MOST = 2 * ARENA / PQ_MEASURE_CHUNK + 1, MOST_COUNT = 3000 };
    static struct pq_error errors[2][MOST_COUNT + MOST];
    unsigned char kept[PQ_MAX_NDIM];
    struct pq_args args;
    if (use.args == NULL || use.args->size != sizeof args || call.n > ARENA ||
        !(use.known || extrema == PQ_OK)) {
        return;
    }
    args = *use.args;
    const int is_same = !use.known || random_chance(50), parts = (int)random_between(1, 4);
    ptrdiff_t count = 1;
    args.out = is_same ? args.in : draw_others(pick(reals, REALS), 0);
    for (int d = 0; !is_same && d < args.ndim; d++) {
        kept[d] = random_chance(30) && count * args.shape[d] <= MOST_COUNT;
        count *= kept[d] ? args.shape[d] : 1;
    }
    const ptrdiff_t each = count > 0 ? pq_measure_chunks((ptrdiff_t)call.n / count) : 0;
    if (count * each > MOST_COUNT + MOST) {
        return;
    }
    for (int i = 0; tables[i] != NULL; i++) {
        struct pq_error *const found = errors[i > 0];
        enum pq_status status = PQ_OK;
        memset(found, 0, sizeof *errors);
        const struct pq_kernels *const k = use.no_kernels ? NULL : tables[i];
        RUN_PARTS(status, parts,
                  pq_measure(k, &args, is_same ? NULL : kept, found, part, parts));
        CHECK(status == extrema, "%s: measure: %d, not %d", tables[i]->name, (int)status,
              (int)extrema);
        CHECK(memcmp(errors[0], found, (size_t)(count * each) * sizeof *found) == 0,
              "%s: measure: other sums than %s", tables[i]->name, tables[0]->name);
    }
    for (ptrdiff_t c = 1; is_same && extrema == PQ_OK && c < each; c++) {
        pq_add_error(errors[0], errors[0] + c);
    }
    CHECK(!is_same || extrema != PQ_OK ||
              (errors[0]->count == (int64_t)call.n && errors[0]->ee == 0 &&
               errors[0]->most == 0 && errors[0]->xx == errors[0]->xy),
          "measure: other sums");
}

static void check_minmax(void)
{
    const size_t cells = call.scale.bytes / 8;
    const int known = use.known && use.args != NULL;
    enum pq_status first = PQ_OK;
    int first_finite = 0;
    for (size_t c = 0; c < cells; c++) {
        put_bits(call.scale.lowest, PQ_F64, c, bits_of_f64((double)INFINITY));
        put_bits(call.zero.lowest, PQ_F64, c, bits_of_f64((double)-INFINITY));
    }
    if (known) {
        find_due_extrema();
    }
    keep(&kept_in, &call.in, &memory.in);
    keep(&kept_scale, &call.scale, &memory.scale);
    keep(&kept_zero, &call.zero, &memory.zero);
    for (int i = 0; tables[i] != NULL; i++) {
        const struct pq_kernels *k = tables[i];
        int finite = 2;
        restore_cells();
        enum pq_status status;
        UNDER_CONTROL(status = pq_minmax(use.no_kernels ? NULL : k, use.args, &finite));
        if (i == 0) {
            first = status;
            first_finite = finite;
        }
        CHECK(status == first && finite == first_finite, "%s: %d and %d, %d and %d",
              k->name, (int)status, (int)first, finite, first_finite);
        CHECK(!use.refused || status != PQ_OK, "%s: accepted", k->name);
        if (known && finite) {
            CHECK(status == PQ_OK && truth.nonfinite == 0, "%s: status %d", k->name,
                  (int)status);
            expect_due_extrema(k);
        }
        CHECK(status == PQ_OK || (is_kept(&kept_scale) && is_kept(&kept_zero)),
              "%s: something was written", k->name);
        const int is_equal = are_equal_cells(i);
        CHECK(status != PQ_OK || !finite || is_equal, "%s: other extrema", k->name);
    }
    for (int i = 0; known && use.args->size == sizeof *use.args && tables[i] != NULL; i++) {
        check_magnitudes(tables[i]);
    }
    check_params(first, first_finite);
    check_histogram(first, first_finite);
    check_measure(first);
    size_t count = 7, at = 7;
    enum pq_status status;
    UNDER_CONTROL(status = pq_count_nonfinite(use.args, &count, &at));
    CHECK(first != PQ_OK || status == PQ_OK, "count: status %d", (int)status);
    CHECK(status == PQ_OK || (count == 7 && at == 7), "count: something was written");
    CHECK(!known || (count == truth.nonfinite && (count == 0 || at == truth.first)),
          "%zu from %zu on are not finite, not %zu from %zu on", count, at, truth.nonfinite,
          truth.first);
    CHECK(first != PQ_OK || first_finite == (count == 0), "finite %d, but %zu that are not",
          first_finite, count);
    CHECK(is_kept(&kept_in), "an input was written");
}

static void check_zeros_within(void)
{
    int64_t lo = draw_integer(-300, 300), hi = draw_integer(-300, 300), out_of_range = 0;
    if (random_chance(30)) {
        lo = (int64_t)random_bits();
        hi = (int64_t)random_bits();
    }
    const struct pq_array *zero = &call.zero.array;
    int within = 1, found = 0;
    const int got = pq_zeros_within(use.args, lo, hi,
                                    random_chance(3) && use.refused ? NULL : &out_of_range);
    if (!use.known) {
        CHECK(!use.refused || !got, "accepted");
        return;
    }
    if (call.n == 0) { /* the result for an empty array is 1 */
        CHECK(got == 1, "of no elements: %d", got);
        return;
    }
    EACH_INDEX(index, call.args.ndim, call.counts) {
        const int64_t z = integer_at(zero, element_at(zero, call.args.ndim, index, NULL));
        within = within && z >= lo && z <= hi && (zero->type != PQ_U64 || z >= 0);
        found = found || z == out_of_range;
    }
    CHECK(found || within, "%lld is none of the zero points", (long long)out_of_range);
    CHECK(got == within, "%s in [%lld, %lld]: %d, not %d", type_name(zero->type),
          (long long)lo, (long long)hi, got, within);
}

/* ---- requantizing ---- */

static const enum pq_type summed[] = {PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_I32, PQ_U32, PQ_I64};

/* Return a random multiplier that every arithmetic of requantize supports. */
static double usual_multiplier(void)
{
    return ldexp(0.5 + random_unit() / 2, (int)random_between(-30, 7));
}

/* Return random numbers for `n` channels, or one number for all. The numbers are from `lo`
 * to `hi`, or multipliers if `lo` equals `hi`. If `any` is 1, the bits are random. The
 * array can have gaps, and ends at an inaccessible page. */
static struct pq_channels draw_numbers(const struct guarded *where, enum pq_type type,
                                       ptrdiff_t n, int64_t lo, int64_t hi, int any)
{
    const ptrdiff_t size = (ptrdiff_t)pq_type_size(type);
    const ptrdiff_t apart = size + (random_chance(50) ? 0 : random_between(0, 9));
    const int one = n < 2 || random_chance(30), down = random_chance(30);
    const ptrdiff_t span = one ? size : apart * (n - 1) + size;
    unsigned char *const lowest = guarded_end(where, (size_t)span);
    const struct pq_array array = {.type = type, .swapped = random_chance(20)};
    for (ptrdiff_t at = 0; at < span; at += apart) {
        const double real = usual_multiplier();
        const float single = (float)real;
        uint64_t bits = type == PQ_F32 ? bits_of_f32(single) : bits_of_f64(real);
        bits = lo != hi ? (uint64_t)draw_integer(lo, hi) : bits;
        put_element(&array, lowest + at, any ? random_bits() : bits);
    }
    return (struct pq_channels){lowest + (down ? span - size : 0),
                                one    ? 0
                                : down ? -apart
                                       : apart,
                                type, array.swapped};
}

/* Choose random arguments for pq_requantize(). Return 1 if the multipliers, shifts or
 * biases can be invalid. */
static int draw_requantization(struct pq_requantization *args)
{
    const int any = random_chance(10), stored = random_chance(30);
    const ptrdiff_t axis = call.args.ndim > 0 ? random_between(0, call.args.ndim - 1) : 0;
    const ptrdiff_t n = call.args.ndim > 0 ? call.shape[axis] : 1;
    const enum pq_type source = PICK(summed),
                       /* the first five types: the output has at most 32 bits */
        target = pick(summed, 5);
    const enum layout layout = draw_layout();
    const struct limits codes = limits_of(target);
    draw_view(&call.in, &memory.in, call.args.ndim, call.shape, source, layout);
    draw_view(&call.out, &memory.out, call.args.ndim, call.shape, target,
              layout == PLAIN ? PLAIN : GAPPED);
    *args = (struct pq_requantization){
        .size = sizeof *args,
        .ndim = call.args.ndim,
        .shape = call.shape,
        .in = call.in.array,
        .out = call.out.array,
        .axis = (int)axis,
        .arithmetic = (enum pq_arithmetic)random_below(PQ_ARITHMETIC_COUNT),
        .zero = random_chance(50) ? 0 : draw_integer(codes.lo, codes.hi),
        .input_zero = random_chance(50) ? 0 : random_between(0, 100),
        .clips = random_chance(30),
    };
    args->lowest_code = draw_integer(codes.lo, codes.hi);
    args->highest_code = draw_integer(args->lowest_code, codes.hi);
    if (stored && args->arithmetic != PQ_ARITHMETIC_FLOAT32) {
        args->multiplier = draw_numbers(&memory.scale, PQ_I32, n, 0, INT32_MAX, any);
        args->shift = draw_numbers(&memory.zero, PQ_I8, n, 1, 30, any);
    } else {
        const enum pq_type type = random_chance(50) ? PQ_F32 : PQ_F64;
        args->multiplier = draw_numbers(&memory.scale, type, n, 0, 0, any);
    }
    if (random_chance(50)) {
        const enum pq_type type = PICK(summed);
        const struct limits all = limits_of(type);
        const int shift = random_chance(60) ? pq_type_bits(type) / 2 : 0;
        args->bias =
            draw_numbers(&memory.offset, type, n, all.lo >> shift, all.hi >> shift, any);
    }
    return any;
}

/* Compute the expected result of the element at `index` by a call for one element. */
static enum pq_status requantize_one(const struct pq_requantization *args,
                                     const ptrdiff_t *index, unsigned char *expected)
{
    struct pq_requantization one = *args;
    struct pq_channels *const numbers[] = {&one.multiplier, &one.shift, &one.bias};
    const ptrdiff_t channel = args->ndim > 0 ? index[args->axis] : 0;
    one.ndim = 0;
    one.in.data = element_at(&args->in, args->ndim, index, NULL);
    one.out.data =
        expected + (element_at(&args->out, args->ndim, index, NULL) - kept_out.at);
    for (int i = 0; i < 3; i++) {
        if (numbers[i]->data != NULL) {
            numbers[i]->data =
                (const char *)numbers[i]->data + channel * numbers[i]->stride;
            numbers[i]->stride = 0;
        }
    }
    return pq_requantize(tables[0], &one, 0, 1);
}

static void check_requantize(void)
{
    static unsigned char expected[ARENA];
    struct pq_requantization args;
    memset(&call.args, 0, sizeof call.args);
    draw_shape(&call, some_size());
    const int any = draw_requantization(&args);
    const int parts = random_chance(60) ? 1 : (int)random_between(1, FEW_PARTS);
    random_from(NULL, 0);
    for (size_t i = 0; i < call.in.bytes; i++) {
        call.in.lowest[i] = (unsigned char)random_bits();
    }
    keep(&kept_in, &call.in, &memory.in);
    keep(&kept_out, &call.out, &memory.out);
    memcpy(expected, kept_out.copy, kept_out.bytes);
    enum pq_status due = PQ_OK;
    EACH_INDEX(index, call.args.ndim, call.shape) {
        const enum pq_status status = requantize_one(&args, index, expected);
        CHECK(status == PQ_OK || any, "requantize: one element: %d", (int)status);
        due = status != PQ_OK ? status : due;
    }
    for (int i = 0; tables[i] != NULL; i++) {
        enum pq_status status = PQ_OK;
        restore(&kept_out);
        RUN_PARTS(status, parts, pq_requantize(tables[i], &args, part, parts));
        const int right = memcmp(kept_out.at, expected, kept_out.bytes) == 0;
        CHECK(call.n == 0 || status == due, "%s: requantize: %d, not %d", tables[i]->name,
              (int)status, (int)due);
        CHECK(status == PQ_OK ? right : is_kept(&kept_out),
              "%s: requantize: arithmetic %d, %s to %s: another result", tables[i]->name,
              (int)args.arithmetic, type_name(call.in.array.type),
              type_name(call.out.array.type));
        CHECK(is_kept(&kept_in), "%s: requantize: an input was written", tables[i]->name);
    }
    restore(&kept_out);
}

/* Check pq_fixed_point() for a random number and arithmetic. The result must be close to
 * the number, or the call must return an error. */
static void check_fixed_point(void)
{
    const double real = random_chance(50) ? usual_multiplier() : f64_of_bits(random_bits());
    const enum pq_arithmetic arithmetic =
        random_chance(90) ? (enum pq_arithmetic)random_below(PQ_ARITHMETIC_COUNT)
                          : (enum pq_arithmetic)no_type();
    const int left =
        arithmetic == PQ_ARITHMETIC_TFLITE || arithmetic == PQ_ARITHMETIC_TFLITE_SINGLE;
    int32_t m = -7;
    int shift = -77;
    CHECK(pq_fixed_point(arithmetic, real, NULL, &shift) == PQ_ERR_NULL &&
              pq_fixed_point(arithmetic, real, &m, NULL) == PQ_ERR_NULL && m == -7 &&
              shift == -77,
          "fixed_point: null");
    enum pq_status status;
    UNDER_CONTROL(status = pq_fixed_point(arithmetic, real, &m, &shift));
    if (status != PQ_OK) {
        CHECK(status == PQ_ERR_OPTION && m == -7 && shift == -77, "fixed_point: written");
        return;
    }
    const double got = ldexp((double)m, left ? shift - 31 : -shift);
    const double given = left ? real : (double)(float)real;
    const double error = fabs(got - given), allowed = left ? given * 0x1p-31 : 0;
    CHECK(error <= allowed || (left && given < 0x1p-32 && m == 0) ||
              (left && given > 0x1p29 && m == INT32_MAX && shift == 30),
          "fixed_point: arithmetic %d, %a gives %d and %d", (int)arithmetic, real, (int)m,
          shift);
}

/* ---- blocks ---- */

enum { MOST_BLOCKS = 3 };

static struct coding {
    int place; /* index of the format */
    const struct pq_block_format *format;
    int encodes;
    struct pq_blocks args;
    ptrdiff_t shape[PQ_MAX_NDIM],
        bytes[PQ_MAX_NDIM]; /* extents in elements (`shape`) and in bytes of blocks */
} coding;

/* Choose random arguments for a call that encodes or decodes blocks. Each row along the
 * last dimension has up to MOST_BLOCKS blocks. */
static void draw_blocks(void)
{
    const enum pq_type type = pick(reals, REALS);
    const enum layout layout = draw_layout(), other = layout == PLAIN ? PLAIN : GAPPED;
    coding.encodes = random_chance(40);
    do {
        coding.place = (int)random_below(PQ_GGUF_FORMATS);
        coding.format = pq_block_format(coding.place);
    } while (coding.encodes && !coding.format->encodes);
    memset(&call.args, 0, sizeof call.args);
    draw_shape(&call, 6);
    const int last = call.args.ndim < MOST_NDIM ? call.args.ndim : MOST_NDIM - 1;
    const ptrdiff_t blocks = random_between(random_chance(5) ? 0 : 1, MOST_BLOCKS);
    memcpy(coding.shape, call.shape, sizeof coding.shape);
    memcpy(coding.bytes, call.shape, sizeof coding.bytes);
    coding.shape[last] = blocks * coding.format->elements;
    coding.bytes[last] = blocks * coding.format->bytes;
    const ptrdiff_t *const in = coding.encodes ? coding.shape : coding.bytes;
    const ptrdiff_t *const out = coding.encodes ? coding.bytes : coding.shape;
    draw_view(&call.in, &memory.in, last + 1, in, coding.encodes ? type : PQ_U8, layout);
    draw_view(&call.out, &memory.out, last + 1, out, coding.encodes ? PQ_U8 : type, other);
    call.n = elements_of(last + 1, coding.shape);
    coding.args =
        (struct pq_blocks){.size = sizeof coding.args,
                           .format = coding.format->id,
                           .ndim = last + 1,
                           .shape = coding.shape,
                           .in = call.in.array,
                           .out = call.out.array,
                           .search = coding.format->encodes > 1 && random_chance(50)};
    if (coding.encodes && random_chance(20)) {
        /* some weights are negative, which is invalid */
        coding.args.weights = call.in.array;
    }
}

/* Compute the expected result of the block that begins at `index`, with a scalar kernel.
 * Set `index` to the last element of the block, so that EACH_INDEX continues with the next
 * block. */
static void code_one(ptrdiff_t *index, unsigned char *expected)
{
    static float numbers[256];
    static unsigned char bytes[300];
    const struct pq_array *const in = &coding.args.in, *const out = &coding.args.out;
    const ptrdiff_t elements = coding.format->elements, size = coding.format->bytes;
    const int ndim = coding.args.ndim;
    const ptrdiff_t reads = coding.encodes ? elements : size,
                    writes = size + elements - reads;
    ptrdiff_t *const last = index + ndim - 1, block = *last / elements;
    for (ptrdiff_t i = 0; i < reads; i++) {
        *last = block * reads + i;
        const unsigned char *const at = element_at(in, ndim, index, NULL);
        if (coding.encodes) {
            numbers[i] = (float)real_at(in, at);
        } else {
            bytes[i] = *at;
        }
    }
    const struct pq_kernels *const k = &pq_kernels_scalar;
    if (coding.encodes && (coding.args.search || k->encode[coding.place] == NULL)) {
        const struct pq_gguf_search how = {coding.place, (int)size, 0, coding.args.search};
        k->search_blocks(&how, numbers, NULL, bytes, 1);
    } else if (coding.encodes) {
        k->encode[coding.place](numbers, bytes, 1);
    } else {
        k->decode[coding.place](bytes, numbers, 1);
    }
    for (ptrdiff_t i = 0; i < writes; i++) {
        const double v = (double)numbers[coding.encodes ? 0 : i];
        const uint64_t bits = coding.encodes        ? bytes[i]
                              : out->type == PQ_F32 ? bits_of_f32((float)v)
                              : out->type == PQ_F64 ? bits_of_f64(v)
                                                    : encode(out->type, v, 1, 0);
        *last = block * writes + i;
        put_element(out, expected + (element_at(out, ndim, index, NULL) - kept_out.at),
                    bits);
    }
    *last = block * elements + elements - 1; /* EACH_INDEX continues with the next block */
}

/* Fill the input with random bytes if `any` is 1. Otherwise, fill it with ordinary numbers
 * to encode, or with blocks with finite scales to decode. */
static void fill_blocks(int any)
{
    const struct pq_array *const in = &call.in.array;
    for (size_t i = 0; i < call.in.bytes; i++) {
        call.in.lowest[i] = (unsigned char)random_bits() & (any ? 0xff : 0xbb);
    }
    if (!coding.encodes || any) {
        return;
    }
    EACH_INDEX(index, coding.args.ndim, coding.shape) {
        const double v = ((double)random_below(1 << 12) - 2048) / 64;
        put_element(in, element_at(in, coding.args.ndim, index, NULL),
                    encode(in->type, v * (1 + 0x1p-30), 1, 0));
    }
}

static void check_blocks(void)
{
    static unsigned char expected[ARENA];
    draw_blocks();
    const int parts = random_chance(60) ? 1 : (int)random_between(1, FEW_PARTS);
    const int any_bytes = random_chance(50);
    random_from(NULL, 0);
    fill_blocks(any_bytes);
    keep(&kept_in, &call.in, &memory.in);
    keep(&kept_out, &call.out, &memory.out);
    memcpy(expected, kept_out.copy, kept_out.bytes);
    EACH_INDEX(index, coding.args.ndim, coding.shape) {
        code_one(index, expected);
    }
    for (int i = 0; tables[i] != NULL; i++) {
        enum pq_status status = PQ_OK;
        restore(&kept_out);
        RUN_PARTS(status, parts,
                  (coding.encodes ? pq_block_encode
                                  : pq_block_decode)(tables[i], &coding.args, part, parts));
        /* Blocks of NaN, infinities or numbers with invalid weights are undefined. */
        const int any = coding.encodes && (any_bytes || coding.args.weights.data != NULL);
        const int right = any || memcmp(kept_out.at, expected, kept_out.bytes) == 0;
        CHECK(status == PQ_OK, "%s: blocks: %d", tables[i]->name, (int)status);
        CHECK(right, "%s: %s of blocks of %s: another result", tables[i]->name,
              coding.encodes ? "making" : "numbers", coding.format->name);
        CHECK(is_kept(&kept_in), "%s: blocks: an input was written", tables[i]->name);
    }
    restore(&kept_out);
}

/* ---- one input ---- */

static void one_input(const unsigned char *data, size_t size)
{
    uint64_t seed = size;
    for (size_t i = 0; i < size; i++) {
        seed = (seed ^ data[i]) * UINT64_C(0x100000001b3);
    }
    random_seed(seed);
    random_from(data, size);
    const size_t kind = random_below(is_large ? 14 : 24);
    memset(&use, 0, sizeof use);
    if (has_control && random_chance(15)) {
        use.control = &controls[random_below(COUNT(controls))];
    }
    if (kind >= 22) {
        check_blocks();
        return;
    }
    const enum op op = kind < 8    ? QUANTIZE
                       : kind < 14 ? DEQUANTIZE
                       : kind < 16 ? REPACK
                       : kind < 19 ? MINMAX
                       : kind < 20 ? ZEROS_WITHIN
                                   : REQUANTIZE;
    if (op == REQUANTIZE) {
        check_fixed_point();
        check_requantize();
        return;
    }
    use.known = 1;
    const int spoiled = random_chance(25), strewn = random_chance(5);
    draw_valid(op);
    struct pq_args args = call.args;
    if (!spoiled) {
        /* the input bytes choose only the arguments; random bits choose the elements */
        random_from(NULL, 0);
    }
    fill(op);
    if (strewn) {
        strew_zeros();
    }
    use.args = &args;
    if (spoiled) {
        use.known = 0;
        spoil(&args, op);
        if (random_chance(20)) {
            spoil(&args, op);
        }
        if (random_chance(2)) {
            use.args = NULL;
            use.refused = 1;
        }
        random_from(NULL, 0);
    }
    if (op != MINMAX && use.args != NULL && args.size == sizeof args && random_chance(10)) {
        use.args = of_another_version(&args);
    }
    if (op == MINMAX) {
        check_minmax();
    } else if (op == ZEROS_WITHIN) {
        check_zeros_within();
    } else {
        check_result(op);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int started;
    if (!started) {
        started = 1;
        make_arenas();
        check_start(1, (char *[]){"fuzz_api"});
        check_begin("one input");
        has_control = 1;
    }
    one_input(data, size);
#if defined(FUZZER)
    if (check_failed()) {
        abort();
    }
#endif
    return 0;
}

#if !defined(FUZZER)

static void check_inputs(const char *name, size_t count)
{
    unsigned char data[64];
    check_begin("%s", name);
    CASES(i, count) {
        const size_t n = 8 + random_below(sizeof data - 8);
        for (size_t b = 0; b < n; b++) {
            data[b] = (unsigned char)(random_bits() >> 32);
        }
        one_input(data, n);
    }
}

/* Check shapes that random calls seldom have: more groups than a tile of parameters, and
 * rows with lengths at the limits of special code. */
static void check_chosen_shapes(void)
{
    static const struct {
        ptrdiff_t rows, columns, block;
        int selects_rows;
    } shapes[] = {
        {1, 32 * 1030 + 5, 32, 0},
        {1, 33 * 1030, 33, 0},
        {1, 5 * 1030, 5, 0},
        {1, 4 * 1030, 4, 0},
        {1, 8 * 1030, 8, 0},
        {1, 16 * 1030, 16, 0},
        {1, 32 * 1030, 32, 0},
        {3, 32 * 1024 - 1, 32, 0},
        {2, 32 * 1024 + 1, 32, 0},
        {1, 1023, 1, 0},
        {1, 1024, 1, 0},
        {1, 1025, 1, 0},
        {5, 511, 1, 0},
        {5, 512, 1, 0},
        {5, 513, 1, 0},
        {40, 49, 0, 1},
        {1100, 3, 0, 1},
        {3, 1100, 0, 1},
        {1025, 32, 0, 1},
        {40, 1000, 1, 1},
        {33, 600, 64, 1},
        {1, 40000, 20000, 0},
        {64, 65, 65, 0},
        {2000, 1, 0, 1},
        {1, 70000, 0, 0},
        {40, 50, 16, 1},
        {6, 1000, 300, 1},
        {9, 65, 64, 1},
        {2500, 33, 0, 0},
    };
    check_begin("chosen shapes");
    CASES(i, check_count(960)) {
        const size_t s = i / 2 * 7 % COUNT(shapes);
        const int quantize = i % 2 == 0;
        const enum pq_type real = pick(reals, 3), code = pick(integers, 4);
        const enum layout layout = i / 2 % 3 != 0      ? PLAIN
                                   : random_chance(50) ? GAPPED
                                                       : BROADCAST;
        memset(&use, 0, sizeof use);
        memset(&call, 0, sizeof call);
        call.args.size = sizeof call.args;
        call.args.ndim = 2;
        call.args.block = call.block;
        call.shape[0] = shapes[s].rows;
        call.shape[1] = shapes[s].columns;
        call.n = elements_of(2, call.shape);
        call.selects[0] = shapes[s].selects_rows;
        call.selects[1] = shapes[s].block > 0;
        call.block[0] = 1;
        call.block[1] = shapes[s].block > 0 ? shapes[s].block : 1;
        for (int d = 0; d < 2; d++) {
            call.counts[d] =
                call.selects[d] ? (call.shape[d] + call.block[d] - 1) / call.block[d] : 1;
        }
        draw_view(&call.in, &memory.in, 2, call.shape, quantize ? real : code, layout);
        draw_view(&call.out, &memory.out, 2, call.shape, quantize ? code : real,
                  layout == BROADCAST ? GAPPED : PLAIN);
        draw_params(&call, call.block[1] > 1 || random_chance(80) ? PLAIN : GAPPED, PQ_F32,
                    code, random_chance(75));
        if (random_chance(50) && call.selects[0] && call.block[1] > 1) {
            /* if the last block is short, its parameters are the first parameters of the
             * next row */
            const ptrdiff_t complete = call.shape[1] / call.block[1];
            call.scale.strides[0] = complete * call.scale.strides[1];
            call.zero.strides[0] = complete * call.zero.strides[1];
        }
        collect_args(&call);
        if (quantize) {
            call.args.round =
                random_chance(75) || pq_is_narrow_float(code) ? PQ_HALF_EVEN : PQ_FLOOR;
            call.args.precision = PQ_F32;
        }
        if (random_chance(30)) {
            draw_affine(&call, quantize);
        } else if (random_chance(50)) {
            call.args.inverse = 1;
        }
        fill(quantize ? QUANTIZE : DEQUANTIZE);
        call.parts = random_chance(50) ? 1 : (int)random_between(2, 7);
        use.known = 1;
        use.args = &call.args;
        check_result(quantize ? QUANTIZE : DEQUANTIZE);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    make_arenas();
    has_control = getenv("CHECK_NO_CONTROL") == NULL;
    check_inputs("random inputs", check_count(100000));
    check_chosen_shapes();
    is_large = 1;
    check_inputs("large inputs", check_count(8000));
    return check_finish();
}

#endif
