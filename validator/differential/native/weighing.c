/* Errors of a result against yardsticks, in one pass over memory: numpy takes five, and to judge a large result takes as
 * long as it is read. What `weighing.py` gives without it is the same, up to the order of its sums.
 *
 * Eight lanes on every machine, so that sums do not hang on the width of its vectors. No -ffast-math: infinities and NaN
 * are what a wrong result is made of.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 8

typedef double wide __attribute__((vector_size(LANES * sizeof(double))));
typedef float narrow __attribute__((vector_size(LANES * sizeof(float))));
typedef int64_t words __attribute__((vector_size(LANES * sizeof(int64_t))));
typedef uint32_t halves __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef uint16_t quarters __attribute__((vector_size(LANES * sizeof(uint16_t))));

/* Compiled for several generations of processors, of which the loader takes the newest that is there. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define EACH_MACHINE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_MACHINE
#endif
#define INLINE static inline __attribute__((always_inline))

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

INLINE wide larger(wide a, wide b)
{
    words first = (words)(a > b);
    return (wide)((first & (words)a) | (~first & (words)b));
}

typedef struct {
    wide most, sum, off, due;
} tally;

INLINE void add(tally *all, wide got, wide exact, wide yard)
{
    const words magnitude = (words){0} + INT64_MAX;
    wide error = got - exact, ratio = (wide)((words)(error / yard) & magnitude);
    all->most = larger(ratio, all->most);
    all->sum += ratio; /* NaN, where one of them is */
    all->off += error * error;
    all->due += yard * yard;
}

/* out: largest |got - exact| / yard, infinite where one of them is no number; sum of squares of errors, of yardsticks. */
#define WEIGH(name, size)                                                                                              \
    EACH_MACHINE void weigh_##name(const char *got, const double *exact, const double *yard, size_t count,             \
                                   double *out)                                                                        \
    {                                                                                                                  \
        tally all = {0};                                                                                               \
        size_t at = 0;                                                                                                 \
        for (; at + LANES <= count; at += LANES)                                                                       \
            add(&all, of_##name(got + at * size), of_float64(exact + at), of_float64(yard + at));                      \
        if (at < count) { /* the rest of the lanes: no error, of a yardstick that does not matter */                    \
            char last[LANES * size] = {0};                                                                             \
            wide due = {0}, own = {0};                                                                                 \
            memcpy(last, got + at * size, (count - at) * size);                                                        \
            memcpy(&due, exact + at, (count - at) * sizeof *exact);                                                    \
            memcpy(&own, yard + at, (count - at) * sizeof *yard);                                                      \
            wide squares = own * own;                                                                                  \
            for (size_t k = count - at; k < LANES; k++)                                                                \
                own[k] = 1;                                                                                            \
            wide before = all.due;                                                                                     \
            add(&all, of_##name(last), due, own);                                                                      \
            all.due = before + squares;                                                                                \
        }                                                                                                              \
        out[0] = out[1] = out[2] = 0;                                                                                  \
        for (int k = 0; k < LANES; k++) {                                                                              \
            out[0] = all.most[k] > out[0] ? all.most[k] : out[0];                                                      \
            out[0] = isnan(all.sum[k]) ? INFINITY : out[0];                                                            \
            out[1] += all.off[k];                                                                                      \
            out[2] += all.due[k];                                                                                      \
        }                                                                                                              \
    }

WEIGH(float64, 8)
WEIGH(float32, 4)
WEIGH(bfloat16, 2)
WEIGH(float16, 2)
