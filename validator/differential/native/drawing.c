/* Random numbers, and what is made of many of them at once: in one pass over memory, where numpy takes ten. Of what
 * `numbers.py` makes of the same stream, every bit is the same.
 *
 * Philox 4x64 with ten rounds (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): a block
 * of four words hangs on its number alone, so that any stretch can be made by itself.
 */
#include "lanes.h"

#define ROUNDS 10
#define BLOCK 4

typedef struct {
    uint64_t word[BLOCK];
} block;

INLINE uint64_t times(uint64_t a, uint64_t b, uint64_t *high)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    *high = (uint64_t)(product >> 64);
    return (uint64_t)product;
}

/* As numpy counts: its first block has the number 1. */
INLINE block made(const uint64_t *key, uint64_t number)
{
    block b = {{number, 0, 0, 0}};
    uint64_t one = key[0], two = key[1];
    for (int k = 0; k < ROUNDS; k++) {
        uint64_t high, other, low = times(0xD2E7470EE14C6C93, b.word[0], &high),
                              rest = times(0xCA5A826395121157, b.word[2], &other);
        b = (block){{other ^ b.word[1] ^ one, rest, high ^ b.word[3] ^ two, low}};
        one += 0x9E3779B97F4A7C15, two += 0xBB67AE8584CAA73B;
    }
    return b;
}

/* What is drawn for two times as many lanes: one block alone is made in more than half the time of two. */
#define TWICE (2 * LANES)

typedef int64_t drawn __attribute__((vector_size(TWICE * sizeof(int64_t))));
typedef double bells __attribute__((vector_size(TWICE * sizeof(double))));

/* `numbers.bell_of`: exact until the last multiplication. */
INLINE bells bell_of(drawn raw)
{
    drawn parts = (raw & 0xffff) + (raw >> 16 & 0xffff) + (raw >> 32 & 0xffff) + (raw >> 48 & 0xffff);
    return (__builtin_convertvector(parts, bells) - 131070.0) * (1.7320508 / 65536.0);
}

typedef struct {
    uint64_t key[2], block;
    unsigned used;
    struct {
        uint64_t word[BLOCK];
    } left;
} stream;

INLINE stream begun(const uint64_t *key, uint64_t at)
{
    stream s = {{key[0], key[1]}, at / BLOCK + 1, at % BLOCK, {{0}}};
    if (s.used) {
        block first = made(s.key, s.block++);
        memcpy(&s.left, &first, sizeof first);
    }
    return s;
}

/* The next words: two blocks, or parts of three. */
INLINE drawn next(stream *s)
{
    uint64_t raw[TWICE + BLOCK];
    unsigned have = 0;
    if (s->used)
        for (unsigned k = s->used; k < BLOCK; k++)
            raw[have++] = s->left.word[k];
    for (; have < TWICE; have += BLOCK) {
        block b = made(s->key, s->block++);
        memcpy(raw + have, &b, sizeof b);
    }
    if (s->used)
        memcpy(&s->left, raw + have - BLOCK, sizeof s->left);
    drawn found;
    memcpy(&found, raw, sizeof found);
    return found;
}

/* A loop over lanes, with what is drawn for them. */
#define EACH_DRAWN(count, ...)                                                                                         \
    for (size_t k = 0; k < (count); k += TWICE) {                                                                      \
        wide both[2];                                                                                                  \
        bells all = bell_of(next(&s));                                                                                 \
        memcpy(both, &all, sizeof all);                                                                                \
        for (int half = 0; half < 2 && k + half * LANES < (count); half++) {                                           \
            size_t at = k + half * LANES, here = at + LANES <= (count) ? LANES : (count) - at;                         \
            wide bell = both[half];                                                                                    \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

/* Every element of `from` times 1 and a little. `at`: words of the stream before the first one. */
#define MOVE(name, size)                                                                                               \
    EACH_MACHINE void move_##name(const char *from, double *to, size_t count, const uint64_t *key, uint64_t at,         \
                                  double eps)                                                                          \
    {                                                                                                                  \
        stream s = begun(key, at);                                                                                     \
        EACH_DRAWN(count, put(to + at, some_##name(from + at * size, here) * (1.0 + eps * bell), here);)                \
    }

MOVE(float64, 8)
MOVE(float32, 4)
MOVE(bfloat16, 2)
MOVE(float16, 2)

INLINE void to_float64(char *to, wide values)
{
    memcpy(to, &values, sizeof values);
}

INLINE void to_float32(char *to, wide values)
{
    narrow rounded = __builtin_convertvector(values, narrow);
    memcpy(to, &rounded, sizeof rounded);
}

/* Of finite numbers; by way of float32, as ml_dtypes does it. */
INLINE void to_bfloat16(char *to, wide values)
{
    halves bits = (halves)__builtin_convertvector(values, narrow);
    quarters rounded = __builtin_convertvector((bits + 0x7fff + (bits >> 16 & 1)) >> 16, quarters);
    memcpy(to, &rounded, sizeof rounded);
}

#define BELL(name, size)                                                                                               \
    EACH_MACHINE void bell_##name(char *to, size_t count, const uint64_t *key, uint64_t at)                            \
    {                                                                                                                  \
        stream s = begun(key, at);                                                                                     \
        EACH_DRAWN(count, {                                                                                            \
            char last[LANES * size];                                                                                   \
            to_##name(here < LANES ? last : to + at * size, bell);                                                     \
            if (here < LANES)                                                                                          \
                memcpy(to + at * size, last, here * size);                                                             \
        })                                                                                                             \
    }

BELL(float64, 8)
BELL(float32, 4)
BELL(bfloat16, 2)
