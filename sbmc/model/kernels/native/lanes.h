/* Vectors of eight numbers, as gcc and clang have them for any processor, and what all C code here
 * does with them. Memory need not be aligned to them.
 */
#include <stdint.h>

#define LANES 8

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t flags __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* Keep a vector in a register: compilers read memory again for every use, which takes longer. */
#if defined(__x86_64__)
#define HOLD(vector) __asm__("" : "+x"(vector))
#else
#define HOLD(vector)
#endif

INLINE lanes load(const float *from) { return *(const lanes *)from; }
INLINE void store(float *to, lanes x) { *(lanes *)to = x; }
INLINE lanes all(float x) { return (lanes){x, x, x, x, x, x, x, x}; }
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
