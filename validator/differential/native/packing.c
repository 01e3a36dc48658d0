/* What is right for a result in three bytes an element, see `packed.py`, with the same bits, in one pass over memory. */
#include "lanes.h"

#define UPPER 0xffff0000u
#define STEPS 64.0f
#define WHOLE 16.0f
#define REBIASED ((127u + 4 - 1) << 4)

typedef int32_t words32 __attribute__((vector_size(LANES * sizeof(int32_t))));

/* Towards zero to the bits of bfloat16, which stay where float32 has them. */
INLINE halves cut(narrow values) { return (halves)values & UPPER; }

/* Steps as floats of eight bits, rounded; minus zero where they do not fit, or are no number. Below WHOLE the bits are
 * their number; above, they are float32's upper ones with another bias. */
INLINE void put_bytes(uint8_t *to, narrow steps, size_t here)
{
    halves bits = (halves)steps, sign = bits >> 31 << 7, rest = bits & 0x7fffffffu;
    halves few = (halves)((narrow)rest < WHOLE);
    halves small = (halves)__builtin_convertvector((narrow)(rest & few) + 0.5f, words32);
    halves code = (few & small) | (~few & (((rest + (1u << 18)) >> 19) - REBIASED));
    halves fits = (halves)(code < 0x80u);
    code |= sign & (halves)(code != 0);
    code = (code & fits) | (0x80u & ~fits);
    for (size_t k = 0; k < here; k++)
        to[k] = (uint8_t)code[k];
}

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
    EACH_MACHINE void pack_##name(const char *native, const double *exact, const double *due, uint8_t *away,           \
                                  uint16_t *yard, size_t count, double share)                                          \
    {                                                                                                                  \
        for (size_t at = 0; at < count; at += LANES) {                                                                 \
            size_t here = at + LANES <= count ? LANES : count - at;                                                    \
            wide right = some_float64(exact + at, here), most = some_float64(due + at, here);                          \
            halves down = cut(__builtin_convertvector(most * share, narrow));                                          \
            narrow off = __builtin_convertvector(right - some_##name(native + at * size, here), narrow);                                      \
            halves none = (halves)((narrow)down == 0) & (halves)(off == 0);                                                  \
            halves far = (halves)(off / (narrow)down * STEPS);                                                               \
            put_upper(yard + at, down, here);                                                                                \
            put_bytes(away + at, (narrow)(far & ~none), here);                                                               \
        }                                                                                                              \
    }

PACK(float32, 4)
PACK(bfloat16, 2)
PACK(float16, 2)
