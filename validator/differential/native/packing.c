/* What is right for a result in four bytes an element, see `packed.py`, with the same bits, in one pass over memory. */
#include "lanes.h"

#define UPPER 0xffff0000u

/* Towards zero to the bits of bfloat16, which stay where float32 has them. */
INLINE halves cut(narrow values) { return (halves)values & UPPER; }

INLINE void put_upper(uint16_t *to, halves bits, size_t here)
{
    quarters upper = __builtin_convertvector(bits >> 16, quarters);
    if (here == LANES)
        memcpy(to, &upper, sizeof upper);
    else
        memcpy(to, &upper, here * sizeof *to);
}

/* `share`: a little less than one. */
#define PACK(name, size)                                                                                               \
    EACH_MACHINE void pack_##name(const char *native, const double *exact, const double *due, uint16_t *away,          \
                                  uint16_t *yard, size_t count, double share)                                          \
    {                                                                                                                  \
        for (size_t at = 0; at < count; at += LANES) {                                                                 \
            size_t here = at + LANES <= count ? LANES : count - at;                                                    \
            wide right = some_float64(exact + at, here), most = some_float64(due + at, here);                          \
            halves down = cut(__builtin_convertvector(most * share, narrow));                                          \
            narrow off = __builtin_convertvector(right - some_##name(native + at * size, here), narrow);                                      \
            halves far = cut(off / (narrow)down), none = (halves)((narrow)down == 0) & (halves)(off == 0);             \
            put_upper(yard + at, down, here);                                                                                \
            put_upper(away + at, far & ~none, here);                                                                         \
        }                                                                                                              \
    }

PACK(float32, 4)
PACK(bfloat16, 2)
PACK(float16, 2)
