/* How far results lie from the exact one: each line of `spread.py` in one pass over memory, with the same bits. */
#include "lanes.h"

/* A loop over lanes of arrays; of those at the end, only so many count. */
#define EACH(count, ...)                                                                                               \
    for (size_t at = 0; at < (count); at += LANES) {                                                                   \
        size_t here = at + LANES <= (count) ? LANES : (count) - at;                                                    \
        __VA_ARGS__                                                                                                    \
    }

/* `before`: null where zeros did not have to be written first. */
EACH_MACHINE void spread_add(double *moved, const double *before, const double *probe, const double *exact,
                             size_t count, double share)
{
    EACH(count, {
        wide off = or_zero(some_float64(probe + at, here) - some_float64(exact + at, here)), sum = share * (off * off);
        put(moved + at, before == NULL ? sum : some_float64(before + at, here) + sum, here);
    })
}

/* `jumps`: null where there are none. */
EACH_MACHINE void spread_halves(double *moved, const double *one, const double *other, const double *exact,
                                const char *jumps, size_t count, double parts, double share, double outweighed)
{
    EACH(count, {
        wide right = some_float64(exact + at, here), a = magnitude(some_float64(one + at, here) - right),
             b = magnitude(some_float64(other + at, here) - right);
        words known = is_same(a, a) & is_same(b, b);
        wide both = either(is_less(a, b), a, b) * parts, none = {0};
        if (outweighed != 0) {
            wide own = outweighed * magnitude(right);
            both = either(is_less(own, both), both, own);
            known &= is_less(none, a) | is_less(none, b);
        }
        if (jumps != NULL)
            for (size_t k = 0; k < here; k++)
                known[k] &= jumps[at + k] ? 0 : -1;
        both = or_zero(where(known, both));
        put(moved + at, some_float64(moved + at, here) + share * (both * both), here);
    })
}

#define YARD(name, size)                                                                                               \
    EACH_MACHINE void yard_##name(double *total, const double *exact, const char *native, size_t count, double half,   \
                                  double least)                                                                        \
    {                                                                                                                  \
        EACH(count, {                                                                                                  \
            wide right = some_float64(exact + at, here), own = or_zero(half * magnitude(right)),                                \
                 off = or_zero(some_##name(native + at * size, here) - right);                                                                \
            wide sum = some_float64(total + at, here) + own * own + off * off;                                                 \
            for (int k = 0; k < LANES; k++)                                                                            \
                sum[k] = __builtin_sqrt(sum[k]);                                                                       \
            put(total + at, sum + least, here);                                                                        \
        })                                                                                                             \
    }

YARD(float64, 8)
YARD(float32, 4)
YARD(bfloat16, 2)
YARD(float16, 2)

/* found: 1 where some exact value is beyond the ends of its type, or no number; the largest finite yardstick.
 * `free`: elements of which nothing is said; null where there are none. */
EACH_MACHINE void ends(const double *exact, const double *yard, const char *free, size_t count, double top,
                       double *found)
{
    words outside = {0};
    wide most = {0}, beyond = (wide){0} + top;
    EACH(count, {
        wide right = magnitude(some_float64(exact + at, here)), due = or_zero(some_float64(yard + at, here));
        if (free != NULL)
            for (size_t k = 0; k < here; k++)
                due[k] = free[at + k] ? 0 : due[k];
        outside |= ~is_at_most(right, beyond);
        most = either(is_less(most, due), due, most);
    })
    for (int k = 0; k < LANES; k++) {
        found[0] = outside[k] ? 1 : found[0];
        found[1] = most[k] > found[1] ? most[k] : found[1];
    }
}

/* found: 1 where some value is no zero and smaller than this. */
EACH_MACHINE void below(const double *values, size_t count, double least, double *found)
{
    words seen = {0};
    wide none = {0}, limit = none + least;
    EACH(count, {
        wide size = magnitude(some_float64(values + at, here));
        seen |= is_less(size, limit) & is_less(none, size);
    })
    for (int k = 0; k < LANES; k++)
        found[0] = seen[k] ? 1 : found[0];
}
