/* Steps of stochastic-gradient samplers, and the normal noise in them.
 *
 * Noise is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011), made normal by Box and Muller. A
 * number depends on its key, the number of the draw, the particle and the index in its vector, and
 * on nothing that came before: particles can be computed in any order and by any thread, and what
 * has to be remembered of a stream is how many draws there have been. Version 1 of the stream:
 *
 *   counter (block, draw, draw >> 32, particle), key (key, key >> 32) -> words a, b, c, d
 *   sixteen blocks give 64 numbers: r(a) cos(b), r(a) sin(b), r(c) cos(d), r(c) sin(d), each for
 *   all sixteen, where r(a) = sqrt(-2 log u) with u = (a >> 1 + 1/2) / 2^31, and the angle of b is
 *   pi/4 times (b << 2) / 2^31 as a signed number; the highest bit of b turns the signs of the
 *   cosine, and the next one swaps sine and cosine.
 */
#ifdef __AVX512F__
#define LANES 16
#endif

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "lanes.h"

#define BLOCKS 16
#define GROUP (4 * BLOCKS)

typedef uint32_t whole __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* The low and high words of the products of all lanes with one number. */
INLINE void multiply(whole x, uint32_t by, whole *low, whole *high) {
#if defined(__AVX512F__) && LANES == 16
    __m512i m = _mm512_set1_epi32((int)by), v = (__m512i)x;
    __m512i even = _mm512_mul_epu32(v, m), odd = _mm512_mul_epu32(_mm512_srli_epi64(v, 32), m);
    *low = (whole)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    *high = (whole)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
#elif defined(__AVX2__)
    __m256i m = _mm256_set1_epi32((int)by), v = (__m256i)x;
    __m256i even = _mm256_mul_epu32(v, m), odd = _mm256_mul_epu32(_mm256_srli_epi64(v, 32), m);
    *low = (whole)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    *high = (whole)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
#else
    for (int i = 0; i < LANES; i++) {
        uint64_t product = (uint64_t)x[i] * by;
        (*low)[i] = (uint32_t)product, (*high)[i] = (uint32_t)(product >> 32);
    }
#endif
}

typedef struct {
    uint64_t key, draw;
    uint32_t particle;
} stream;

/* Four words for each of LANES blocks. */
INLINE void philox(const stream *s, uint32_t block, whole word[4]) {
    whole a = COUNTED, b = EACH((uint32_t)s->draw), c = EACH((uint32_t)(s->draw >> 32));
    whole d = EACH(s->particle);
    a += block;
    uint32_t k0 = (uint32_t)s->key, k1 = (uint32_t)(s->key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        whole low0, high0, low1, high1;
        multiply(a, 0xD2511F53u, &low0, &high0);
        multiply(c, 0xCD9E8D57u, &low1, &high1);
        a = high1 ^ b ^ k0, b = low1, c = high0 ^ d ^ k1, d = low0;
    }
    word[0] = a, word[1] = b, word[2] = c, word[3] = d;
}

/* Two normal numbers of two words, by Box and Muller. */
INLINE void normal_pair(whole length, whole angle, lanes *first, lanes *second) {
    lanes u = __builtin_convertvector((flags)(length >> 1), lanes);
    lanes r = square_root(-2.0f * logarithm((u + 0.5f) * 0x1p-31f));
    lanes t = __builtin_convertvector((flags)(angle << 2), lanes) * 3.6572951e-10f; /* pi / 2^33 */
    lanes z = t * t;
    lanes sine = z * -1.9515295891e-4f + 8.3321608736e-3f;
    sine = (sine * z - 1.6666654611e-1f) * z * t + t;
    lanes cosine = z * 2.443315711809948e-5f - 1.388731625493765e-3f;
    cosine = (cosine * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
    cosine = (lanes)((whole)cosine ^ (angle & 0x80000000u));
    flags swap = (flags)(angle << 1) >> 31;
    *first = r * choose(swap, sine, cosine), *second = r * choose(swap, cosine, sine);
}

/* Numbers 64 g to 64 g + 63 of a particle's vector. */
INLINE void normal_group(const stream *s, int64_t group, float *noise) {
    for (int half = 0; half < BLOCKS; half += LANES) {
        whole word[4];
        lanes x[4];
        philox(s, (uint32_t)(group * BLOCKS + half), word);
        normal_pair(word[0], word[1], x, x + 1);
        normal_pair(word[2], word[3], x + 2, x + 3);
        for (int j = 0; j < 4; j++) store(noise + j * BLOCKS + half, x[j]);
    }
}

/* The islands whose particles follow each other, `each` of every island. */
typedef struct {
    int64_t each;
    const uint64_t *key, *draw; /* (islands) */
} islands;

static stream stream_of(const islands *from, int64_t particle) {
    int64_t island = particle / from->each;
    return (stream){from->key[island], from->draw[island], (uint32_t)(particle % from->each)};
}

/* Normal noise (last - first, dim) of the particles first <= i < last. */
void sbmc_normal(const islands *from, int64_t first, int64_t last, int64_t dim, float *out) {
    float group[GROUP];
    for (int64_t particle = first; particle < last; particle++, out += dim) {
        stream s = stream_of(from, particle);
        for (int64_t i = 0; i < dim; i += GROUP) {
            int64_t count = dim - i < GROUP ? dim - i : GROUP;
            normal_group(&s, i / GROUP, count == GROUP ? out + i : group);
            if (count < GROUP) memcpy(out + i, group, sizeof(float) * (size_t)count);
        }
    }
}

/* Four words of each of `count` blocks, for tests: (count, 4). */
void sbmc_philox(uint64_t key, uint64_t draw, uint32_t particle, int64_t count, uint32_t *out) {
    stream s = {key, draw, particle};
    for (int64_t block = 0; block < count; block += LANES) {
        whole word[4];
        philox(&s, (uint32_t)block, word);
        for (int64_t i = 0; i < LANES && block + i < count; i++)
            for (int j = 0; j < 4; j++) out[(block + i) * 4 + j] = word[j][i];
    }
}

/* ---- one step: out = keep x + force (temperature gradient - z) + scale noise --------------------- */

typedef struct {
    float keep, force, temperature, scale;
} step;

INLINE lanes kicked(const step *a, lanes x, lanes gradient, lanes z, lanes noise) {
    return a->keep * x + a->force * (a->temperature * gradient - z) + a->scale * noise;
}

/* x, gradient, z and out are (last - first, dim), and so is noise, if there is any; else it is made
 * here from the islands' streams. finite (last - first): whether all numbers of `out` are. */
void sbmc_kick(const step *a, const islands *from, int64_t first, int64_t last, int64_t dim,
               const float *x, const float *gradient, const float *z, const float *noise, float *out,
               uint8_t *finite) {
    for (int64_t particle = first; particle < last; particle++) {
        float group[GROUP];
        lanes check = {0};
        stream s = {0};
        if (!noise) s = stream_of(from, particle);
        for (int64_t i = 0; i < dim; i += GROUP) {
            int64_t count = dim - i < GROUP ? dim - i : GROUP, k = 0;
            const float *xi = noise;
            if (!noise) normal_group(&s, i / GROUP, group), xi = group - i;
            for (; k + LANES <= count; k += LANES) {
                lanes y = kicked(a, load(x + i + k), load(gradient + i + k), load(z + i + k),
                                 load(xi + i + k));
                store(out + i + k, y);
                check += y * 0.0f;
            }
            for (; k < count; k++) {
                int64_t at = i + k;
                out[at] = a->keep * x[at] + a->force * (a->temperature * gradient[at] - z[at]) +
                          a->scale * xi[at];
                check[0] += out[at] * 0.0f;
            }
        }
        float sum = 0;
        for (int i = 0; i < LANES; i++) sum += check[i];
        *finite++ = sum == 0.0f;
        x += dim, gradient += dim, z += dim, out += dim;
        if (noise) noise += dim;
    }
}
