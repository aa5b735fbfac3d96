/* Which instruction sets this processor runs, and its operating system lets it use.
 *
 * Part of the library for the oldest processors, which a wheel brings along with better ones.
 */
#if defined(__x86_64__)
#include <cpuid.h>

/* Whether a register has all these bits. */
static int has(unsigned found, unsigned wanted) { return (found & wanted) == wanted; }

/* The level of x86-64, as compilers count them: 1, 2, 3 (AVX2, FMA) or 4 (AVX-512). */
int sbmc_level(void) {
    unsigned a, b, c, d, first_c, more_b = 0, extended_c = 0;
    if (!__get_cpuid(1, &a, &b, &first_c, &d)) return 1;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) more_b = b;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d)) extended_c = c;
    /* SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF. */
    if (!has(first_c, 1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23)) return 1;
    if (!has(extended_c, 1u << 0)) return 1;
    /* FMA, MOVBE, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT. */
    if (!has(first_c, 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29)) return 2;
    if (!has(more_b, 1u << 3 | 1u << 5 | 1u << 8) || !has(extended_c, 1u << 5)) return 2;
    /* Registers that the operating system saves: of 16 and 32 bytes; of 64, and masks. */
    unsigned saved, high;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if (!has(saved, 0x6)) return 2;
    /* AVX512F, DQ, CD, BW, VL. */
    if (!has(more_b, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31)) return 3;
    return has(saved, 0xE6) ? 4 : 3;
}
#else
int sbmc_level(void) { return 1; }
#endif
