/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE

#include "oracle.h"
#include "types.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#  include <windows.h>
#elif !defined(__wasi__)
#  define CHECK_POSIX 1
#  include <signal.h>
#  include <sys/mman.h>
#  include <unistd.h>
#endif

#if defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define CHECK_ASAN 1
#  endif
#elif defined(__SANITIZE_ADDRESS__)
#  define CHECK_ASAN 1
#endif

/* ---- tests ---- */

enum { FEW = 5 };
#define NO_CASE SIZE_MAX
#define FNV_PRIME UINT64_C(0x100000001b3)

static struct {
    const char *path, *program;
    const char *only; /* a test runs only if its name contains this text */
    /* index of the first case that runs, and number of cases that run, or 0 for all */
    size_t first, cases;
    char test[160];
    uint64_t hash; /* hash of the name of the test */
    /* indices of the running case and of the first failed case, or NO_CASE */
    size_t at, failing;
    int passed, failed;
    int failures; /* number of failures of the running test */
    size_t light;
} state;

/* Write to `to` the command that runs case `at` of the running test. */
static void write_command(char *to, size_t size, size_t at)
{
    char number[24] = "";
    if (at != NO_CASE) {
        snprintf(number, sizeof number, " %zu", at);
    }
    snprintf(to, size, "%s \"%s\"%s", state.path, state.test, number);
}

#if defined(CHECK_POSIX)
enum { CRASH_SIGNALS = 4 };

static const int crash_signals[CRASH_SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction before[CRASH_SIGNALS];

static void say_where(void)
{
    char command[512], line[600];
    write_command(command, sizeof command, state.at);
    const int n =
        snprintf(line, sizeof line, "%s: died. Run again:\n  %s\n", state.program, command);
    const ssize_t written = write(STDOUT_FILENO, line, (size_t)n);
    (void)written;
}

/* Print the running test. Then restore the signal handler of the sanitizer or of the
 * system, which handles the crash when the faulty instruction repeats. */
static void on_crash(int number)
{
    say_where();
    for (int i = 0; i < CRASH_SIGNALS; i++) {
        if (crash_signals[i] == number) {
            sigaction(number, &before[i], NULL);
        }
    }
}

static void watch_crashes(void)
{
    for (int i = 0; i < CRASH_SIGNALS; i++) {
        struct sigaction action = {.sa_handler = on_crash};
        sigaction(crash_signals[i], &action, &before[i]);
    }
}
#else
static void watch_crashes(void) {}
#endif

#if defined(CHECK_ASAN)
void __sanitizer_set_death_callback(void (*callback)(void));
#endif

const struct pq_kernels *tables[8];

void check_start(int argc, char **argv)
{
    for (int i = 0; i < 7 && pq_isa_name(i) != NULL; i++) {
        tables[i] = pq_isa_find(pq_isa_name(i));
    }
    const char *light = getenv("CHECK_LIGHT");
    state.path = state.program = argv[0];
    for (const char *c = argv[0]; *c != '\0'; c++) {
        state.program = *c == '/' || *c == '\\' ? c + 1 : state.program;
    }
    state.only = argc > 1 ? argv[1] : "";
    state.first = argc > 2 ? (size_t)strtoull(argv[2], NULL, 0) : 0;
    state.cases = argc > 3 ? (size_t)strtoull(argv[3], NULL, 0) : argc > 2;
    state.light = light != NULL ? (size_t)strtoull(light, NULL, 10) : 1;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    watch_crashes();
#if defined(CHECK_ASAN) && !defined(FUZZER) /* libFuzzer itself reports crashes */
    __sanitizer_set_death_callback(say_where);
#endif
}

/* Return 1 if the arguments of the program select the running test. */
static int is_selected(void)
{
    return strstr(state.test, state.only) != NULL;
}

/* Count the running test as passed or failed. If the test failed, print the number of
 * failures and the command that repeats the first failure. */
static void end_test(void)
{
    char command[512];
    if (state.failures != 0) {
        state.failed++;
        write_command(command, sizeof command, state.failing);
        printf("FAILED %s: %d failures. Run again:\n  %s\n", state.test, state.failures,
               command);
    } else {
        state.passed += state.test[0] != '\0' && is_selected();
    }
}

uint64_t digest_of(const void *bytes, size_t n)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) {
        digest = (digest ^ ((const unsigned char *)bytes)[i]) * FNV_PRIME;
    }
    return digest;
}

void check_begin(const char *format, ...)
{
    va_list arguments;
    end_test();
    va_start(arguments, format);
    vsnprintf(state.test, sizeof state.test, format, arguments);
    va_end(arguments);
    state.hash = digest_of(state.test, strlen(state.test));
    random_seed(state.hash);
    state.at = state.failing = NO_CASE;
    state.failures = 0;
}

int check_finish(void)
{
    end_test();
    printf("%s: %d passed, %d failed\n", state.program, state.passed, state.failed);
    return state.failed != 0 || state.passed == 0;
}

size_t check_first(void)
{
    return state.first;
}

int check_case(size_t i, size_t n)
{
    const size_t end = state.cases != 0 ? state.first + state.cases : n;
    const int runs = i < end && !check_tired();
    state.at = runs ? i : NO_CASE;
    random_seed((state.hash ^ i) * FNV_PRIME);
    random_from(NULL, 0);
    return runs;
}

void check_fail(const char *file, int line, const char *format, ...)
{
    if (!is_selected()) {
        return;
    }
    state.failing = state.failures == 0 ? state.at : state.failing;
    if (state.failures++ < FEW) {
        printf("%s:%d: %s: ", file, line, state.test);
        va_list arguments;
        va_start(arguments, format);
        vprintf(format, arguments);
        va_end(arguments);
        if (state.at != NO_CASE) {
            printf(" (case %zu)", state.at);
        }
        putchar('\n');
    }
}

int check_failed(void)
{
    return state.failures != 0;
}

int check_tired(void)
{
    return state.failures >= FEW || !is_selected();
}

size_t check_count(size_t n)
{
    return state.light > 1 ? (n + state.light - 1) / state.light : n;
}

/* ---- random numbers ---- */

static uint64_t random_state = 1;
static const unsigned char *choices;
static size_t choices_left;

void random_seed(uint64_t seed)
{
    random_state = seed != 0 ? seed : 1;
    for (int i = 0; i < 4; i++) {
        random_bits();
    }
}

uint64_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

void random_from(const unsigned char *bytes, size_t n)
{
    choices = bytes;
    choices_left = bytes != NULL ? n : 0;
}

/* Return a number from the input bytes of the fuzzer. Read only as many bytes as a choice
 * among `n` needs, so that a change of one byte changes one choice. */
static uint64_t take_choice(size_t n)
{
    const int bytes = n <= 0x100 ? 1 : n <= 0x10000 ? 2 : 8;
    uint64_t v = 0;
    for (int i = 0; i < bytes && choices_left > 0; i++, choices_left--) {
        v = v << 8 | *choices++;
    }
    return v;
}

size_t random_below(size_t n)
{
    if (choices_left > 0) {
        return (size_t)(take_choice(n) % n);
    }
    if (n <= UINT32_MAX) { /* avoids a 64-bit division */
        return (size_t)((random_bits() >> 32) * n >> 32);
    }
    return (size_t)((random_bits() >> 11) % n);
}

ptrdiff_t random_between(ptrdiff_t lo, ptrdiff_t hi)
{
    return lo + (ptrdiff_t)random_below((size_t)(hi - lo) + 1);
}

int random_chance(unsigned percent)
{
    return random_below(100) < percent;
}

double random_unit(void)
{
    return (double)(random_bits() >> 11) * 0x1p-53;
}

/* ---- bits and formats ---- */

#define BITS(name, from, to)                                                               \
    to name(from v)                                                                        \
    {                                                                                      \
        to bits;                                                                           \
        memcpy(&bits, &v, sizeof bits);                                                    \
        return bits;                                                                       \
    }
BITS(bits_of_f32, float, uint32_t)
BITS(f32_of_bits, uint32_t, float)
BITS(bits_of_f64, double, uint64_t)
BITS(f64_of_bits, uint64_t, double)
#undef BITS

const enum pq_type reals[REALS] = {PQ_F32, PQ_F16, PQ_BF16, PQ_F64};

int is_real_type(enum pq_type type)
{
    return type == PQ_F32 || type == PQ_F16 || type == PQ_BF16 || type == PQ_F64;
}

int no_type(void)
{
    static const int values[] = {-1, PQ_TYPE_COUNT, 99, INT32_MAX, INT32_MIN, 256};
    return values[random_below(COUNT(values))];
}

const char *type_name(enum pq_type type)
{
    const struct pq_type_info *info = pq_type_info(type);
    return info != NULL ? info->name : type == PQ_NO_TYPE ? "none" : "?";
}

const char *round_name(enum pq_round round)
{
    static const char *const names[] = {
        [PQ_HALF_EVEN] = "half_even",
        [PQ_HALF_AWAY] = "half_away",
        [PQ_HALF_TOWARD_ZERO] = "half_toward_zero",
        [PQ_HALF_UP] = "half_up",
        [PQ_HALF_DOWN] = "half_down",
        [PQ_AWAY] = "away",
        [PQ_TRUNC] = "trunc",
        [PQ_CEIL] = "ceil",
        [PQ_FLOOR] = "floor",
        [PQ_STOCHASTIC] = "stochastic",
        [PQ_HALF_ODD] = "half_odd",
    };
    _Static_assert(sizeof names / sizeof *names == PQ_ROUND_COUNT, "a mode lacks a name");
    const char *name = (unsigned)round < PQ_ROUND_COUNT ? names[round] : NULL;
    return name != NULL ? name : "?";
}

enum pq_round static_round(size_t i)
{
    return (enum pq_round)(i < PQ_STOCHASTIC ? i : i + 1);
}

struct limits limits_of(enum pq_type integer)
{
    static const struct limits table[PQ_TYPE_COUNT] = {
        [PQ_I8] = {-128, 127},
        [PQ_U8] = {0, 255},
        [PQ_I16] = {-32768, 32767},
        [PQ_U16] = {0, 65535},
        [PQ_I32] = {-INT64_C(2147483648), 2147483647},
        [PQ_U32] = {0, INT64_C(4294967295)},
        [PQ_I64] = {INT64_MIN, INT64_MAX},
        [PQ_U64] = {0, INT64_MAX},
        [PQ_I4] = {-8, 7},
        [PQ_U4] = {0, 15},
        [PQ_I2] = {-2, 1},
        [PQ_U2] = {0, 3},
    };
    return table[integer];
}

/* Run statements that use `v`, an unsigned integer of `size` bytes. The value of `v` is the
 * low bits of `bits`. */
#define OF_SIZE(type, statements)                                                          \
    case sizeof(type): {                                                                   \
        type v = (type)bits;                                                               \
        statements;                                                                        \
        break;                                                                             \
    }
#define FOR_SIZE(size, statements)                                                         \
    switch (size) {                                                                        \
        OF_SIZE(uint8_t, statements)                                                       \
        OF_SIZE(uint16_t, statements)                                                      \
        OF_SIZE(uint32_t, statements)                                                      \
        OF_SIZE(uint64_t, statements)                                                      \
    }

uint64_t get_bits(const void *p, enum pq_type type, size_t i)
{
    const size_t size = pq_bytes_of(type);
    uint64_t bits = 0;
    FOR_SIZE(size, memcpy(&v, (const char *)p + i * size, size); bits = v)
    return bits;
}

void put_bits(void *p, enum pq_type type, size_t i, uint64_t bits)
{
    const size_t size = pq_bytes_of(type);
    FOR_SIZE(size, memcpy((char *)p + i * size, &v, size))
}

double get_real(const void *p, enum pq_type type, size_t i)
{
    const uint64_t bits = get_bits(p, type, i);
    if (type != PQ_F32) {
        return decode(type, bits);
    }
    /* Set the sign, because the conversion of a float32 NaN to double can lose the sign. */
    return copysign((double)f32_of_bits((uint32_t)bits), bits >> 31 ? -1.0 : 1.0);
}

int64_t get_integer(const void *p, enum pq_type type, size_t i)
{
    const int bits = pq_type_bits(type);
    const uint64_t all = UINT64_MAX >> (64 - bits), sign = UINT64_C(1) << (bits - 1);
    const uint64_t code = get_bits(p, type, i) & all;
    return (int64_t)(limits_of(type).lo < 0 ? (code ^ sign) - sign : code);
}

void swap_bytes_of(void *p, size_t size)
{
    unsigned char *b = p;
    for (size_t i = 0; i < size / 2; i++) {
        const unsigned char t = b[i];
        b[i] = b[size - 1 - i];
        b[size - 1 - i] = t;
    }
}

/* ---- adversarial values ---- */

uint64_t bits_near(enum pq_type type, double v)
{
    return type == PQ_F32 ? bits_of_f32((float)v) : encode(type, v, 0, 0);
}

static uint64_t draw_special(enum pq_type type)
{
    const int width = pq_bits_of(type);
    const int mantissa = type == PQ_F64 ? 52 : format_of(type)->mantissa_bits;
    const uint64_t one = 1, sign = (random_bits() & 1) << (width - 1);
    const uint64_t infinity = ((one << (width - 1 - mantissa)) - 1) << mantissa;
    const uint64_t quiet = one << (mantissa - 1);
    const uint64_t magnitudes[] = {
        0,
        infinity,
        infinity | quiet | (random_bits() & (quiet - 1)), /* a quiet NaN */
        infinity | 1 | (random_bits() & (quiet - 1)),     /* a signaling NaN */
        infinity - 1,                                     /* the largest number */
        one << mantissa,                                  /* the smallest normal number */
        1,                                       /* the smallest subnormal number */
        random_bits() & ((one << mantissa) - 1), /* any subnormal number */
    };
    return sign | magnitudes[random_below(COUNT(magnitudes))];
}

static double draw_multiple(double limit)
{
    static const double edges[] = {127,    128,    129,   255,   256,         32767,
                                   32768,  65535,  65536, 65537, 262144,      8388609,
                                   0,      1,      2,     3,     2147483647., 2147483648.,
                                   40000,  200,    383,   384,   4294967295., 4294967296.,
                                   0x1p53, 0x1p63, 0x1p64};
    const double sign = random_chance(50) ? 1 : -1;
    switch (random_below(8)) {
    case 0:
        return sign * edges[random_below(COUNT(edges))];
    case 1:
        return sign * (double)random_below(8);
    default:
        return sign * floor(random_unit() * limit);
    }
}

uint64_t draw_real(enum pq_type type, double scale, double limit)
{
    const uint64_t mask = ~UINT64_C(0) >> (64 - pq_bits_of(type));
    double v;
    switch (random_below(16)) {
    case 0:
        return random_bits() & mask;
    case 1:
        return draw_special(type);
    case 2:
        v = ldexp(scale, (int)random_below(45) - 5);
        break;
    case 3:
        v = (2 * random_unit() - 1) * limit * scale;
        break;
    default:
        v = (draw_multiple(limit) + (random_chance(67) ? 0.5 : 0)) * scale;
        break;
    }
    if (!isfinite(v)) {
        return random_bits() & mask;
    }
    return (bits_near(type, v) + random_below(5) - 2) & mask;
}

static uint32_t draw_float_bits(uint32_t exponent)
{
    return exponent << 23 | (uint32_t)(random_bits() & 0x7fffff);
}

float draw_scale(void)
{
    /* Biased exponents of scales at which kernels change their method. Outside some limits,
     * kernels divide instead of multiplying by a reciprocal, or treat subnormal numbers
     * separately. */
    static const uint32_t ends[] = {26,  27,  28,  46,  47,  48,  50,  51,  52,
                                    66,  67,  68,  2,   3,   4,   19,  20,  21,
                                    202, 203, 204, 220, 221, 222, 226, 227, 228};
    const size_t count = COUNT(ends);
    uint32_t bits;
    switch (random_below(16)) {
    case 0:
        bits = draw_float_bits(ends[random_below(count)]);
        break;
    case 1: /* the exact limits */
        bits = ends[random_below(count)] << 23 | (random_chance(50) ? 0x7fffff : 0);
        break;
    case 2: /* all bits of the significand are 1, except perhaps the low two bits */
        bits = (uint32_t)random_between(1, 254) << 23 |
               (uint32_t)random_between(0x7ffffd, 0x7fffff);
        break;
    case 3: /* a power of two, or one of the next two floats above */
        bits = (uint32_t)random_between(1, 254) << 23 | (uint32_t)random_below(3);
        break;
    case 4: /* subnormal */
        bits = draw_float_bits(0);
        break;
    case 5: /* huge */
        bits = draw_float_bits((uint32_t)random_between(228, 254));
        break;
    case 6:
        bits = (uint32_t)draw_special(PQ_F32);
        break;
    case 7: /* negative */
        bits = draw_float_bits((uint32_t)random_between(1, 254)) | 0x80000000;
        break;
    case 8:
    case 9: /* within the limits of quotients by a reciprocal */
        bits = draw_float_bits((uint32_t)random_between(27, 227));
        break;
    default: /* ordinary */
        bits = draw_float_bits((uint32_t)random_between(107, 147));
        break;
    }
    return f32_of_bits(bits);
}

double draw_scale_f64(void)
{
    const uint64_t mantissa = random_bits() >> 12;
    switch (random_below(8)) {
    case 0:
        return f64_of_bits(draw_special(PQ_F64));
    case 1:
        return f64_of_bits((uint64_t)random_between(0, 2046) << 52 | mantissa);
    case 2:
        return -f64_of_bits((uint64_t)random_between(1000, 1050) << 52 | mantissa);
    case 3:
    case 4:
        return (double)draw_scale();
    default:
        return f64_of_bits((uint64_t)random_between(1000, 1050) << 52 | mantissa);
    }
}

int64_t draw_integer(int64_t lo, int64_t hi)
{
    const uint64_t range = (uint64_t)hi - (uint64_t)lo;
    const uint64_t offset =
        range == UINT64_MAX ? random_bits() : random_bits() % (range + 1);
    const int64_t anything = (int64_t)((uint64_t)lo + offset);
    const int64_t special[] = {lo, hi, 0, (int64_t)((uint64_t)lo + range / 2),
                               1 + (int64_t)random_below(3)};
    const size_t kind = random_below(8);
    const int64_t v = kind < COUNT(special) ? special[kind] : anything;
    return v < lo || v > hi ? anything : v;
}

/* ---- guarded memory ---- */

#if defined(_WIN32)

static size_t page_size(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

/* Allocate `inside` bytes between two inaccessible pages. Return NULL on failure. */
static void *map_between(size_t inside, size_t page)
{
    DWORD before_that;
    char *const all =
        VirtualAlloc(NULL, inside + 2 * page, MEM_RESERVE | MEM_COMMIT, PAGE_NOACCESS);
    return all != NULL && VirtualProtect(all + page, inside, PAGE_READWRITE, &before_that)
               ? all + page
               : NULL;
}

#elif defined(CHECK_POSIX)

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Allocate `inside` bytes between two inaccessible pages. Return NULL on failure. */
static void *map_between(size_t inside, size_t page)
{
    char *const all =
        mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return all != MAP_FAILED && mprotect(all + page, inside, PROT_READ | PROT_WRITE) == 0
               ? all + page
               : NULL;
}

#else /* WebAssembly cannot make memory inaccessible */

static size_t page_size(void)
{
    return 4096;
}

static void *map_between(size_t inside, size_t page)
{
    return aligned_alloc(page, inside);
}

#endif

void guarded_make_all(void *all, size_t bytes, size_t size)
{
    for (size_t i = 0; i < bytes / sizeof(struct guarded); i++) {
        ((struct guarded *)all)[i] = guarded_make(size);
    }
}

struct guarded guarded_make(size_t size)
{
    const size_t page = page_size();
    const size_t inside = (size + page - 1) / page * page;
    void *const base = map_between(inside, page);
    if (base == NULL) {
        perror("guarded_make");
        exit(2);
    }
    return (struct guarded){base, inside};
}

unsigned char *guarded_end(const struct guarded *memory, size_t n)
{
    return memory->base + memory->size - n;
}
