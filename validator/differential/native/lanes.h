/* What sources in C share: lanes of numbers, and elements of every type read as float64. */
#ifndef LANES_H
#define LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "machines.h"

/* Four lanes on every machine, so that sums do not hang on the width of its vectors: of float64 what AVX2 has in one. What
 * is wider than a machine's vectors GCC takes apart element by element, in ten to thirty times the time. */
#define LANES 4

typedef double wide __attribute__((vector_size(LANES * sizeof(double))));
typedef float narrow __attribute__((vector_size(LANES * sizeof(float))));
typedef int64_t words __attribute__((vector_size(LANES * sizeof(int64_t))));
typedef uint32_t halves __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef uint16_t quarters __attribute__((vector_size(LANES * sizeof(uint16_t))));

INLINE wide doubled(halves bits) { return __builtin_convertvector((narrow)bits, wide); }

INLINE wide of_float64(const void *at)
{
    wide values;
    memcpy(&values, at, sizeof values);
    return values;
}

INLINE wide of_float32(const void *at)
{
    halves bits;
    memcpy(&bits, at, sizeof bits);
    return doubled(bits);
}

INLINE wide of_bfloat16(const void *at)
{
    quarters bits;
    memcpy(&bits, at, sizeof bits);
    return doubled(__builtin_convertvector(bits, halves) << 16);
}

/* The exponent goes where float32 has it; a multiplication puts it right, subnormals too. All ones stay all ones. */
INLINE wide of_float16(const void *at)
{
    quarters given;
    memcpy(&given, at, sizeof given);
    halves bits = __builtin_convertvector(given, halves), sign = (bits & 0x8000) << 16, rest = (bits & 0x7fff) << 13;
    halves odd = (halves)((bits & 0x7c00) == 0x7c00);
    narrow finite = (narrow)rest * 0x1p112f;
    return doubled(sign | (odd & (rest | 0x7f800000)) | (~odd & (halves)finite));
}

/* The same at the end of an array, where only some lanes are there: the others are zero. */
#define SOME(name, size)                                                                                               \
    INLINE wide some_##name(const void *from, size_t here)                                                             \
    {                                                                                                                  \
        char last[LANES * size] = {0};                                                                                 \
        return of_##name(here < LANES ? memcpy(last, from, here * size) : from);                                       \
    }

SOME(float64, 8)
SOME(float32, 4)
SOME(bfloat16, 2)
SOME(float16, 2)

INLINE void put(double *to, wide values, size_t here)
{
    if (here == LANES)
        memcpy(to, &values, sizeof values);
    else
        memcpy(to, &values, here * sizeof *to);
}

/* Comparisons: all ones where they hold. On x86 of lanes as they are, as AVX2 has them; elsewhere in the vectors of two that
 * NEON has, as GCC takes comparisons of what is wider apart element by element. */
#ifdef __x86_64__
#define COMPARE(name, sign)                                                                                            \
    INLINE words name(wide a, wide b) { return (words)(a sign b); }
#else
typedef double pair __attribute__((vector_size(2 * sizeof(double))));
typedef int64_t pair_words __attribute__((vector_size(2 * sizeof(int64_t))));
#define COMPARE(name, sign)                                                                                            \
    INLINE words name(wide a, wide b)                                                                                  \
    {                                                                                                                  \
        union {                                                                                                        \
            wide whole;                                                                                                \
            pair parts[LANES / 2];                                                                                     \
        } left = {a}, right = {b};                                                                                     \
        union {                                                                                                        \
            words whole;                                                                                               \
            pair_words parts[LANES / 2];                                                                               \
        } holds;                                                                                                       \
        for (int k = 0; k < LANES / 2; k++)                                                                            \
            holds.parts[k] = (pair_words)(left.parts[k] sign right.parts[k]);                                          \
        return holds.whole;                                                                                            \
    }
#endif

COMPARE(is_less, <)
COMPARE(is_at_most, <=)
COMPARE(is_same, ==)

/* Of each lane what `first` says: all ones for `a`, zero for `b`. */
INLINE wide either(words first, wide a, wide b)
{
    return (wide)((first & (words)a) | (~first & (words)b));
}

INLINE wide magnitude(wide a)
{
    return (wide)((words)a & ((words){0} + INT64_MAX));
}

/* Where a condition holds, which is all ones there and zero elsewhere. */
INLINE wide where(words holds, wide a)
{
    return (wide)(holds & (words)a);
}

INLINE wide or_zero(wide a)
{
    return where(is_at_most(magnitude(a), (wide){0} + 0x1.fffffffffffffp1023), a);
}

#endif
