/* One element, written throughout a large array: past the caches, so that what stands there is not read first. That takes
 * two thirds of the time, and leaves the memory to what runs meanwhile.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define PERIOD 64

/* `element`: PERIOD bytes, of which the array is made; the last of them may be cut. */
void pour(char *at, size_t size, const char *element)
{
    size_t done = 0;
#ifdef __SSE2__
    if ((uintptr_t)at % sizeof(__m128i) == 0) {
        const __m128i *from = (const __m128i *)element;
        __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2),
                d = _mm_loadu_si128(from + 3);
        for (; done + PERIOD <= size; done += PERIOD) {
            __m128i *to = (__m128i *)(at + done);
            _mm_stream_si128(to, a), _mm_stream_si128(to + 1, b), _mm_stream_si128(to + 2, c),
                _mm_stream_si128(to + 3, d);
        }
        _mm_sfence(); /* before anybody is told that it stands there */
    }
#endif
    for (; done < size; done += PERIOD)
        memcpy(at + done, element, size - done < PERIOD ? size - done : PERIOD);
}
