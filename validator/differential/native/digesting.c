/* A keyed digest of memory: comparing two large arrays reads both, comparing their digests reads the new one alone, and
 * memory is what a large kernel and the gate beside it share.
 *
 * Within a block sums of products of 32-bit words, each word plus its part of the key (NH, RFC 4418 section 5.2), twice,
 * by keys that are 16 bytes apart; the sums of the blocks are digits of a number modulo 2^61 - 1, at a base out of the
 * key. Two different memories of one size have one digest with a probability under 2^-50 (2^-28 for each of the numbers),
 * whoever chose them, as long as he does not see the key.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "machines.h"

#define BLOCK 4096
#define APART 16
#define LANES 4

typedef uint64_t words __attribute__((vector_size(LANES * sizeof(uint64_t))));
typedef uint32_t halves __attribute__((vector_size(LANES * sizeof(uint64_t))));
typedef unsigned __int128 product;

#define PRIME (((uint64_t)1 << 61) - 1)

INLINE void multiplied(words *sum, const char *at, const char *key)
{
    halves given, own;
    memcpy(&given, at, sizeof given);
    memcpy(&own, key, sizeof own);
    words pairs = (words)(given + own);
    *sum += (pairs & 0xffffffff) * (pairs >> 32);
}

INLINE uint64_t next(uint64_t number, uint64_t base, words sums)
{
    uint64_t digit = 0;
    for (int k = 0; k < LANES; k++)
        digit += sums[k];
    product more = (product)number * base + (digit & PRIME) + (digit >> 61);
    uint64_t folded = (uint64_t)(more & PRIME) + (uint64_t)(more >> 61);
    folded = (folded & PRIME) + (folded >> 61);
    return folded >= PRIME ? folded - PRIME : folded;
}

/* `key`: BLOCK + 2 * APART bytes for the sums, then a base of 8 bytes for each of the two numbers that are put in `out`. */
EACH_MACHINE void digest(const char *at, size_t size, const char *key, uint64_t *out)
{
    uint64_t first = 0, second = 0, bases[2];
    memcpy(bases, key + BLOCK + 2 * APART, sizeof bases);
    for (size_t done = 0; done < size; done += BLOCK) {
        char last[BLOCK];
        const char *from = at + done;
        if (size - done < BLOCK) { /* arrays of one size end alike */
            memset(last, 0, sizeof last);
            from = memcpy(last, from, size - done);
        }
        words sums[2] = {{0}, {0}};
        for (size_t k = 0; k < BLOCK; k += sizeof *sums) {
            multiplied(sums, from + k, key + k);
            multiplied(sums + 1, from + k, key + k + APART);
        }
        first = next(first, bases[0] & (PRIME >> 1), sums[0]);
        second = next(second, bases[1] & (PRIME >> 1), sums[1]);
    }
    out[0] = first, out[1] = second;
}
