/* A first convolution, its 2 x 2 max-pooling and its ReLU on prepared planes, and its gradient.
 *
 * Sizes, and the order in which arrays are laid out:
 *   groups    sets of examples: one that all particles share, or one for each particle
 *   members   particles that read the same set
 *   examples, out (channels), patch (taps times channels in), windows (of the pooling)
 *   planes    each has one pixel of the image for every window; see planes.py
 *
 *   kernel (groups, members, out, patch)      pooled (groups, members, examples, out, windows)
 *   bias   (groups, members, out)             winner (groups, members, examples, out, blocks, 8)
 *   input  (groups, examples, blocks, planes, 16), where a last block has only the windows left
 *
 * A window's tap p at its first corner is in the plane that starts at offset[p] within a block; the
 * corners beside and below it are `right` and `down` numbers further. `copy` has room for a block.
 *
 * The four corners of eight windows stay in registers until the winner is known, and an image stays
 * in cache while all particles read it. Every sum is made in an order that the sizes alone decide.
 */
#include <stdint.h>
#include <string.h>

#include "lanes.h"

#define CORNERS 4
#define WIDE (2 * LANES) /* windows of a block */

typedef struct {
    int64_t groups, members, examples, out, patch, windows, planes, right, down;
} sizes;

/* Where b beats a: ties stay with a; one that is not a number beats all. */
static inline flags beats(lanes b, lanes a) { return (b > a) | (b != b); }

/* Pooled values of eight windows. Returns which corner won; 4 if the ReLU lets nothing through. */
static inline flags pool(lanes first, lanes second, lanes third, lanes fourth, float shift,
                         float *pooled, int64_t left) {
    flags right = beats(second, first), right_below = beats(fourth, third);
    lanes upper = choose(right, second, first), lower = choose(right_below, fourth, third);
    flags below = beats(lower, upper);
    lanes sum = choose(below, lower, upper) + shift;
    flags off = sum <= 0.0f;
    lanes value = (lanes)(~off & (flags)sum);
    if (left >= LANES) *(lanes *)pooled = value;
    else for (int64_t w = 0; w < left; w++) pooled[w] = value[w];
    /* A mask is -1 where it holds: 0 or 1 above, 2 or 3 below. */
    flags index = (~below & -right) | (below & (2 - right_below));
    return (~off & index) | (off & CORNERS);
}

/* Copy the windows after the last whole block, with zeros after them, as a block of their own. */
static void copy_rest(const float *rest, int64_t planes, int64_t left, float *copy) {
    if (left == 0) return;
    for (int64_t plane = 0; plane < planes; plane++)
        for (int64_t w = 0; w < WIDE; w++)
            copy[plane * WIDE + w] = w < left ? rest[plane * left + w] : 0.0f;
}

void sbmc_stem_forward(const sizes *n, const int64_t *offset, const float *kernel,
                       const float *bias, const float *input, float *copy, float *pooled,
                       int32_t *winner) {
    int64_t patch = n->patch, right = n->right, down = n->down;
    int64_t blocks = (n->windows + WIDE - 1) / WIDE;
    int64_t rest = n->windows % WIDE, whole = n->windows - rest;
    for (int64_t group = 0; group < n->groups; group++)
    for (int64_t example = 0; example < n->examples; example++) {
        const float *from = input + (group * n->examples + example) * n->planes * n->windows;
        copy_rest(from + whole * n->planes, n->planes, rest, copy);
        for (int64_t member = 0; member < n->members; member++)
        for (int64_t start = 0; start < n->windows; start += WIDE)
        for (int64_t channel = 0; channel < n->out; channel += 2)
        for (int64_t half = start; half < n->windows && half < start + WIDE; half += LANES) {
            /* Two channels at a time; the last of an odd number is done twice. */
            const float *x = start < whole ? from + start * n->planes : copy;
            int64_t particle = group * n->members + member, left = n->windows - half;
            int64_t other = channel + 1 < n->out ? channel + 1 : channel;
            const float *k = kernel + (particle * n->out + channel) * patch;
            const float *l = kernel + (particle * n->out + other) * patch;
            lanes k0 = {0}, k1 = {0}, k2 = {0}, k3 = {0}, l0 = {0}, l1 = {0}, l2 = {0}, l3 = {0};
            for (int64_t p = 0; p < patch; p++) {
                const float *at = x + (half - start) + offset[p], *below = at + down;
                lanes x0 = load(at), x1 = load(at + right);
                k0 += k[p] * x0, l0 += l[p] * x0;
                k1 += k[p] * x1, l1 += l[p] * x1;
                lanes x2 = load(below), x3 = load(below + right);
                k2 += k[p] * x2, l2 += l[p] * x2;
                k3 += k[p] * x3, l3 += l[p] * x3;
            }
            int64_t to = (particle * n->examples + example) * n->out;
            int64_t one = (to + channel) * n->windows + half, two = (to + other) * n->windows + half;
            flags best = pool(k0, k1, k2, k3, bias[particle * n->out + channel], pooled + one, left);
            flags next = pool(l0, l1, l2, l3, bias[particle * n->out + other], pooled + two, left);
            flags *best_to = (flags *)winner + (to + channel) * blocks + start / WIDE;
            flags *next_to = (flags *)winner + (to + other) * blocks + start / WIDE;
            /* Corners of the first eight windows in the lower byte, of the second in the next. */
            if (half == start) {
                *best_to = best, *next_to = next;
            } else {
                flags first_best = *best_to, first_next = *next_to; /* may be the same place */
                *best_to = first_best | (best << 8), *next_to = first_next | (next << 8);
            }
        }
    }
}

/* The gradient of eight windows at one corner, and zero where another one won. */
static inline lanes at_corner(lanes gradient, flags winner, int corner) {
    return (lanes)((winner == corner) & (flags)gradient);
}

/* `sums` are zeros (groups, 2, members, out, patch + 1, 8): of the example at hand, and of all.
 * The totals over eight lanes are the gradients, the last of each channel that of its bias. */
void sbmc_stem_backward(const sizes *n, const int64_t *offset, const float *gradient,
                        const int32_t *winner, const float *input, float *copy, float *sums,
                        float *kernel, float *bias) {
    int64_t patch = n->patch, right = n->right, down = n->down;
    int64_t blocks = (n->windows + WIDE - 1) / WIDE;
    int64_t rest = n->windows % WIDE, whole = n->windows - rest;
    int64_t each = n->members * n->out * (patch + 1);
    for (int64_t group = 0; group < n->groups; group++)
    for (int64_t example = 0; example < n->examples; example++) {
        lanes *sum_of = (lanes *)sums + 2 * group * each;
        const float *from = input + (group * n->examples + example) * n->planes * n->windows;
        copy_rest(from + whole * n->planes, n->planes, rest, copy);
        for (int64_t member = 0; member < n->members; member++)
        for (int64_t start = 0; start < n->windows; start += WIDE) {
            const float *x = start < whole ? from + start * n->planes : copy;
            int64_t particle = group * n->members + member, left = n->windows - start;
            for (int64_t channel = 0; channel < n->out; channel++) {
                int64_t at = (particle * n->examples + example) * n->out + channel;
                const float *slope = gradient + at * n->windows + start;
                float ended[WIDE] = {0};
                if (left < WIDE) {
                    for (int64_t w = 0; w < left; w++) ended[w] = slope[w];
                    slope = ended;
                }
                lanes g = load(slope), h = load(slope + LANES);
                flags best = ((const flags *)winner)[at * blocks + start / WIDE];
                flags u = best & 255, v = best >> 8;
                lanes g0 = at_corner(g, u, 0), g1 = at_corner(g, u, 1);
                lanes g2 = at_corner(g, u, 2), g3 = at_corner(g, u, 3);
                lanes h0 = at_corner(h, v, 0), h1 = at_corner(h, v, 1);
                lanes h2 = at_corner(h, v, 2), h3 = at_corner(h, v, 3);
                lanes *sum = sum_of + (member * n->out + channel) * (patch + 1);
                for (int64_t p = 0; p < patch; p++) {
                    const float *y = x + offset[p], *z = y + LANES;
                    lanes a = sum[p] + g0 * load(y), b = h0 * load(z);
                    a += g1 * load(y + right), b += h1 * load(z + right);
                    y += down, z += down;
                    a += g2 * load(y), b += h2 * load(z);
                    a += g3 * load(y + right), b += h3 * load(z + right);
                    sum[p] = a + b;
                }
                sum[patch] += ((g0 + g1) + (g2 + g3)) + ((h0 + h1) + (h2 + h3));
            }
        }
        /* Sums of one example, then sums of those: fewer roundings on the way of each number. */
        for (int64_t i = 0; i < each; i++)
            sum_of[each + i] += sum_of[i], sum_of[i] = (lanes){0};
    }
    for (int64_t group = 0; group < n->groups; group++)
    for (int64_t i = 0; i < each; i++) {
        const float *s = sums + ((2 * group + 1) * each + i) * LANES;
        float total = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
        int64_t channel = group * n->members * n->out + i / (patch + 1), p = i % (patch + 1);
        if (p < patch) kernel[channel * patch + p] = total;
        else bias[channel] = total;
    }
}
