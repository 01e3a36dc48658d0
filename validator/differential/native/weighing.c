/* Errors of a result against yardsticks, in one pass over memory: numpy takes five, and to judge a large result takes as
 * long as it is read. What `weighing.py` gives without it is the same, up to the order of its sums.
 * No -ffast-math: infinities and NaN are what a wrong result is made of.
 */
#include <math.h>

#include "lanes.h"

INLINE wide larger(wide a, wide b)
{
    return either(is_less(b, a), a, b);
}

typedef struct {
    wide most, sum, off, due;
} tally;

INLINE void add(tally *all, wide got, wide exact, wide yard)
{
    wide error = got - exact, ratio = magnitude(error / yard);
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
            size_t here = count - at;                                                                                  \
            wide own = some_float64(yard + at, here), squares = own * own;                                             \
            for (size_t k = here; k < LANES; k++)                                                                      \
                own[k] = 1;                                                                                            \
            wide before = all.due;                                                                                     \
            add(&all, some_##name(got + at * size, here), some_float64(exact + at, here), own);                        \
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
