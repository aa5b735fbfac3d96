/* Vectors of eight numbers, as gcc and clang have them for any processor, and what all C code here
 * does with them; of sixteen, if a file says so before it includes this. Memory need not be aligned
 * to them.
 */
#include <math.h>
#include <stdint.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef LANES
#define LANES 8
#endif

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t flags __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* Keep a vector in a register: compilers read memory again for every use, which takes longer. */
#if defined(__x86_64__) && LANES == 16
#define HOLD(vector) __asm__("" : "+v"(vector))
#elif defined(__AVX__)
#define HOLD(vector) __asm__("" : "+x"(vector))
#else
#define HOLD(vector)
#endif

/* Loops over vectors in registers: clang keeps some of them in memory unless it unrolls the loop. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL
#endif

INLINE lanes load(const float *from) { return *(const lanes *)from; }
INLINE void store(float *to, lanes x) { *(lanes *)to = x; }
#if LANES == 16
#define EACH(x) {x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}
#define COUNTED {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
#else
#define EACH(x) {x, x, x, x, x, x, x, x}
#define COUNTED {0, 1, 2, 3, 4, 5, 6, 7}
#endif
INLINE lanes all(float x) { return (lanes)EACH(x); }
INLINE lanes choose(flags mask, lanes yes, lanes no) {
    return (lanes)((mask & (flags)yes) | (~mask & (flags)no));
}

/* exp(x) for x <= 0, to two units in the last place. */
INLINE lanes exponential(lanes x) {
    lanes shifted = x * 1.44269504f + 12582912.0f; /* the nearest whole number, in the last bits */
    lanes n = shifted - 12582912.0f;
    lanes r = x - n * 0.693359375f + n * 2.12194440e-4f;
    lanes y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f, y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f, y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    flags power = ((flags)shifted + (127 - 0x4B400000)) << 23;
    return choose(x < -87.0f, (lanes){0}, y * (lanes)power);
}

/* log(x) for x > 0 that is no subnormal number, to two units in the last place. */
INLINE lanes logarithm(lanes x) {
    flags bits = (flags)x - 0x3F3504F3; /* the root of one half */
    lanes power = __builtin_convertvector(bits >> 23, lanes);
    lanes m = (lanes)((bits & 0x007FFFFF) + 0x3F3504F3) - 1.0f, z = m * m;
    lanes y = m * 7.0376836292e-2f - 1.1514610310e-1f;
    y = y * m + 1.1676998740e-1f, y = y * m - 1.2420140846e-1f;
    y = y * m + 1.4249322787e-1f, y = y * m - 1.6668057665e-1f;
    y = y * m + 2.0000714765e-1f, y = y * m - 2.4999993993e-1f;
    y = y * m + 3.3333331174e-1f;
    y = y * m * z - power * 2.12194440e-4f - 0.5f * z;
    return m + y + power * 0.693359375f;
}

INLINE lanes square_root(lanes x) {
#if defined(__AVX512F__) && LANES == 16
    return (lanes)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__) && LANES == 8
    return (lanes)_mm256_sqrt_ps((__m256)x);
#else
    for (int i = 0; i < LANES; i++) x[i] = sqrtf(x[i]);
    return x;
#endif
}
