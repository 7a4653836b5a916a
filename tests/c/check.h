/* SPDX-License-Identifier: Apache-2.0 */
/* A small harness: named tests, guarded memory, random numbers, adversarial values. */
#ifndef CHECK_H
#define CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "pq.h"

#define CHECK_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* ---- tests ---- */

/*
 * Read the arguments of a program, and find the tables. Call this first.
 *
 *     PROGRAM                        run all tests
 *     PROGRAM TEST                   run the tests with TEST in their names
 *     PROGRAM TEST CASE [COUNT]      run one case of them, or COUNT cases from CASE
 *
 * A test that fails or crashes prints the command that runs its first failure again.
 */
void check_start(int argc, char **argv);

/* The tables of kernels for this machine, with the scalar table last, then NULL. They are
 * found only once, because CPU detection on virtual machines takes longer than most
 * calls. */
extern const struct pq_kernels *tables[8];

/* End the running test, and start another. The name of a test sets its seed, so that tests
 * are independent. In a test that the arguments exclude, CASES runs no case, and CHECK
 * ignores failures. */
void check_begin(const char *format, ...) CHECK_PRINTF(1, 2);

/* End the last test, print the last line, and return the exit status. */
int check_finish(void);

/* Run the body for `n` cases, up to the first failures. The name of the test and the number
 * of the case set the seed. So each case runs alone with equal data. */
#define CASES(i, n) for (size_t i = check_first(); check_case(i, n); i++)
size_t check_first(void);
int check_case(size_t i, size_t n);

/* Return the FNV-1a digest of `n` bytes. */
uint64_t digest_of(const void *bytes, size_t n);

void check_fail(const char *file, int line, const char *format, ...) CHECK_PRINTF(3, 4);
/* Return 1 after the first failures of a test, which need no more output. */
int check_tired(void);
/* Return 1 if the running test has failed. */
int check_failed(void);

#define CHECK(condition, ...)                                                              \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            check_fail(__FILE__, __LINE__, __VA_ARGS__);                                   \
        }                                                                                  \
    } while (0)

/* Check the status of a call. */
#define EXPECT(due, ...) EXPECT_OF(#__VA_ARGS__, due, __VA_ARGS__)
#define EXPECT_OF(text, due, ...)                                                          \
    do {                                                                                   \
        const enum pq_status got_ = (__VA_ARGS__);                                         \
        CHECK(got_ == (due), "%s: status %d, expected %d", text, (int)got_, (int)(due));   \
    } while (0)

/* Check the status of a call after a change of `args`, a copy of `good`. */
#define AFTER(due, change, ...)                                                            \
    do {                                                                                   \
        args = good;                                                                       \
        change;                                                                            \
        EXPECT_OF(#change, due, __VA_ARGS__);                                              \
    } while (0)

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Return n, divided by the environment variable CHECK_LIGHT and rounded up. */
size_t check_count(size_t n);

/* ---- random numbers: xorshift64* ---- */

void random_seed(uint64_t seed);
/* Let random_below read its choices from these bytes first, unless `bytes` is NULL. */
void random_from(const unsigned char *bytes, size_t n);
uint64_t random_bits(void);
/* Return mode `i` of the STATIC_ROUNDS modes other than PQ_STOCHASTIC. */
enum { STATIC_ROUNDS = PQ_ROUND_COUNT - 1 };
enum pq_round static_round(size_t i);
size_t random_below(size_t n);                        /* n > 0 */
ptrdiff_t random_between(ptrdiff_t lo, ptrdiff_t hi); /* both included */
int random_chance(unsigned percent);
double random_unit(void); /* [0, 1) */

/* ---- bits and formats ---- */

uint32_t bits_of_f32(float v);
float f32_of_bits(uint32_t bits);
uint64_t bits_of_f64(double v);
double f64_of_bits(uint64_t bits);

enum { REALS = 4 };
extern const enum pq_type reals[REALS]; /* float64 is the last */
int is_real_type(enum pq_type type);
int no_type(void); /* a random number that is no type */
const char *type_name(enum pq_type type);
const char *round_name(enum pq_round round);

struct limits {
    int64_t lo, hi;
};
struct limits limits_of(enum pq_type integer); /* `hi` of PQ_U64 is INT64_MAX */

/* Element `i` of a native array of reals or of integers. */
double get_real(const void *p, enum pq_type type, size_t i);
int64_t get_integer(const void *p, enum pq_type type, size_t i);
/* Return the bits in the low bytes. The high bytes are 0. */
uint64_t get_bits(const void *p, enum pq_type type, size_t i);
/* Store the low bytes of `bits` as element `i` of an array of `type`. */
void put_bits(void *p, enum pq_type type, size_t i, uint64_t bits);

/* Return the bits of the number nearest to v. */
uint64_t bits_near(enum pq_type real, double v);

void swap_bytes_of(void *p, size_t size);

/* ---- adversarial values ---- */

/* Return bits of a real that is hard to divide by `scale`, for codes up to `limit`. */
uint64_t draw_real(enum pq_type type, double scale, double limit);
/* Return a scale: ordinary, at a limit of the fast quotients, not finite, or NaN. */
float draw_scale(void);
double draw_scale_f64(void);
/* Return an integer in [lo, hi], often at the ends or in the middle. */
int64_t draw_integer(int64_t lo, int64_t hi);

/* ---- memory between two inaccessible pages, until the program ends ---- */

struct guarded {
    unsigned char *base;
    size_t size; /* bytes between the inaccessible pages */
};

struct guarded guarded_make(size_t size);
/* Make every member of the struct `all` of `bytes` bytes. All members are struct
 * guarded. */
void guarded_make_all(void *all, size_t bytes, size_t size);
/* Return the last `n` bytes before the inaccessible page at the end. */
unsigned char *guarded_end(const struct guarded *memory, size_t n);

#endif
