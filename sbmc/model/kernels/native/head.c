/* A linear layer and the log likelihood of its classes, with gradient, for many particles.
 *
 * A column is one class of one particle, and the innermost axis of every array but the data is the
 * column: both products, X W and then Xᵀ R, are sums of vectors of columns, each multiplied by one
 * number of the data, which stay as they are.
 *
 * Softmax does not change when all its inputs do by the same amount. So the first class's weights
 * are subtracted from the others', and of K classes K - 1 are left; its gradient is minus the sum of
 * theirs. The bias is the weight of a feature that is always one.
 *
 * Sums over a block of examples are made in single precision, and every one in an order that the
 * sizes alone decide.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "lanes.h"

#define PANEL 16    /* columns that go together: two vectors */
#define TALL 6      /* examples, or features, that go with them: as many as there are registers for */
#define BLOCK 192   /* examples whose columns stay in cache between the products */
#define DEEP 256    /* features of a block of X W: weights of a panel, in the innermost cache */
#define NARROW 96   /* features of a block of Xᵀ R; a multiple of TALL */
#define TILE (BLOCK * TALL + LANES)
#define TOGETHER 8  /* examples of which one logarithm is taken */


typedef struct {
    int64_t particles, outputs, features, dim, weight, bias; /* bias < 0: none */
    int64_t columns, apart; /* of the work; numbers from one example's columns to the next */
    int64_t tall;           /* features, one for the bias, and zeros up to a multiple of TALL */
} head;

/* ---- weights: differences from the first class, in panels -------------------------------------- */

static void pack(const head *h, const float *theta, float *packed) {
    memset(packed, 0, sizeof(float) * h->columns * h->tall);
    for (int64_t k = 1; k < h->outputs; k++)
        for (int64_t p = 0; p < h->particles; p++) {
            int64_t column = (k - 1) * h->particles + p;
            const float *own = theta + p * h->dim;
            const float *first = own + h->weight, *these = first + k * h->features;
            float *to = packed + column / PANEL * h->tall * PANEL + column % PANEL;
            for (int64_t f = 0; f < h->features; f++) to[f * PANEL] = these[f] - first[f];
            if (h->bias >= 0) to[h->features * PANEL] = own[h->bias + k] - own[h->bias];
        }
}

static void unpack(const head *h, const float *packed, double *slope) {
    for (int64_t p = 0; p < h->particles; p++) {
        double *own = slope + p * h->dim, *first = own + h->weight;
        memset(own, 0, sizeof(double) * h->dim);
        for (int64_t k = 1; k < h->outputs; k++) {
            int64_t column = (k - 1) * h->particles + p;
            double *these = first + k * h->features;
            const float *from = packed + column / PANEL * h->tall * PANEL + column % PANEL;
            for (int64_t f = 0; f < h->features; f++) {
                these[f] = from[f * PANEL];
                first[f] -= these[f];
            }
            if (h->bias >= 0) {
                own[h->bias + k] = from[h->features * PANEL];
                own[h->bias] -= own[h->bias + k];
            }
        }
    }
}

/* ---- X W: some examples times a panel, over some features ------------------------------------- */

/* Not inlined: the loop needs all registers. */
#define MULTIPLY(name, TIMES)                                                                     \
    static __attribute__((noinline)) void name(const float *x, int64_t features, int64_t count,   \
                                               const float *weight, float *out, int64_t apart) {  \
        lanes a[TIMES], b[TIMES];                                                                 \
        for (int i = 0; i < TIMES; i++)                                                           \
            a[i] = load(out + i * apart), b[i] = load(out + i * apart + LANES);                   \
        const float *later = x + 3 * features;                                                    \
        for (const float *end = x + count; x < end; x++, later++, weight += PANEL) {              \
            lanes left = load(weight), right = load(weight + LANES);                              \
            HOLD(left);                                                                           \
            HOLD(right);                                                                          \
            for (int i = 0; i < TIMES; i++) {                                                     \
                lanes one = all(i < 3 ? x[i * features] : later[(i - 3) * features]);             \
                a[i] += one * left, b[i] += one * right;                                          \
            }                                                                                     \
        }                                                                                         \
        for (int i = 0; i < TIMES; i++)                                                           \
            store(out + i * apart, a[i]), store(out + i * apart + LANES, b[i]);                   \
    }

MULTIPLY(multiply_tall, TALL)
MULTIPLY(multiply_one, 1)

static void forward(const head *h, const float *input, int64_t examples, const float *packed,
                    float *out) {
    int64_t features = h->features, apart = h->apart;
    for (int64_t e = 0; e < examples; e++)
        for (int64_t c = 0; c < h->columns; c += PANEL)
            memcpy(out + e * apart + c, packed + c * h->tall + features * PANEL,
                   sizeof(float) * PANEL);
    for (int64_t from = 0; from < features; from += DEEP) {
        int64_t count = features - from < DEEP ? features - from : DEEP;
        for (int64_t c = 0; c < h->columns; c += PANEL) {
            const float *weight = packed + c * h->tall + from * PANEL;
            const float *x = input + from;
            int64_t e = 0;
            for (; e + TALL <= examples; e += TALL) {
                /* The first panel meets the data in memory, the others in cache. */
                for (int64_t i = 0; c == 0 && i < TALL; i++)
                    for (int64_t f = 0; f < DEEP; f += PANEL)
                        __builtin_prefetch(x + (e + TALL + i) * features + f);
                multiply_tall(x + e * features, features, count, weight, out + e * apart + c, apart);
            }
            for (; e < examples; e++)
                multiply_one(x + e * features, features, count, weight, out + e * apart + c, apart);
        }
    }
}

/* ---- Xᵀ R: TALL features times a panel, over a block of examples ------------------------------ */

/* `tile` has TALL features of each example, `residual` a panel of its columns. */
static __attribute__((noinline)) void gather(const float *tile, const float *residual,
                                             int64_t examples, float *sums) {
    lanes a[TALL], b[TALL];
    for (int i = 0; i < TALL; i++) a[i] = b[i] = (lanes){0};
    for (int64_t e = 0; e < examples; e++, tile += TALL, residual += PANEL) {
        lanes left = load(residual), right = load(residual + LANES);
        HOLD(left);
        HOLD(right);
        for (int i = 0; i < TALL; i++) {
            lanes one = all(tile[i]);
            a[i] += one * left, b[i] += one * right;
        }
    }
    for (int i = 0; i < TALL; i++) {
        float *sum = sums + i * PANEL;
        store(sum, load(sum) + a[i]), store(sum + LANES, load(sum + LANES) + b[i]);
    }
}

/* Tiles of TALL features, each for all examples; numbers after a tile may be written to. */
static void cut(const head *h, const float *input, int64_t examples, int64_t from, int64_t width,
                float *tiles) {
    for (int64_t e = 0; e < examples; e++) {
        const float *row = input + e * h->features + from;
        int64_t f = 0;
        for (; from + f + LANES <= h->features && f < width; f += TALL)
            store(tiles + f / TALL * TILE + e * TALL, load(row + f));
        for (; f < width; f++) {
            float x = from + f < h->features ? row[f] : from + f == h->features ? 1.0f : 0.0f;
            tiles[f / TALL * TILE + e * TALL + f % TALL] = x;
        }
    }
}

static void backward(const head *h, const float *input, int64_t examples, const float *residual,
                     float *panels, float *tiles, float *sums) {
    for (int64_t c = 0; c < h->columns; c += PANEL)
        for (int64_t e = 0; e < examples; e++)
            memcpy(panels + c * BLOCK + e * PANEL, residual + e * h->apart + c,
                   sizeof(float) * PANEL);
    for (int64_t from = 0; from < h->tall; from += NARROW) {
        int64_t width = h->tall - from < NARROW ? h->tall - from : NARROW;
        cut(h, input, examples, from, width, tiles);
        for (int64_t c = 0; c < h->columns; c += PANEL)
            for (int64_t f = 0; f < width; f += TALL)
                gather(tiles + f / TALL * TILE, panels + c * BLOCK, examples,
                       sums + c * h->tall + (from + f) * PANEL);
    }
}

/* ---- classes: log softmax of the label, and residuals in place of the columns ------------------ */

/* `product` and `exponent` have room for one number of each particle, and LANES more; `room` for
 * one vector of each class. */
static void classes(const head *h, int64_t examples, const int32_t *label, float *out,
                    float *product, float *exponent, float *room, double *value) {
    int64_t particles = h->particles, others = h->outputs - 1;
    for (int64_t begin = 0; begin < examples; begin += TOGETHER) {
        int64_t end = begin + TOGETHER < examples ? begin + TOGETHER : examples;
        for (int64_t p = 0; p < particles; p += LANES) store(product + p, all(1.0f));
        memset(exponent, 0, sizeof(float) * (particles + LANES));
        for (int64_t e = begin; e < end; e++) {
            float *own = out + e * h->apart;
            int64_t given = (int64_t)label[e] - 1;
            for (int64_t p = 0; p < particles; p += LANES) {
                lanes most = {0}, sum;
                for (int64_t k = 0; k < others; k++) {
                    lanes z = load(own + k * particles + p);
                    most = choose((z > most) | (z != z), z, most);
                }
                lanes hit = given < 0 ? (lanes){0} : load(own + given * particles + p);
                sum = exponential(-most);
                for (int64_t k = 0; k < others; k++) {
                    lanes z = exponential(load(own + k * particles + p) - most);
                    store(room + k * LANES, z);
                    sum += z;
                }
                store(product + p, load(product + p) * sum);
                store(exponent + p, load(exponent + p) + (hit - most));
                lanes over = 1.0f / sum;
                int64_t left = particles - p;
                for (int64_t k = 0; k < others; k++) {
                    lanes r = (k == given ? all(1.0f) : (lanes){0}) - load(room + k * LANES) * over;
                    float *to = own + k * particles + p;
                    if (left >= LANES) store(to, r);
                    else
                        /* What follows is the next class's, which is still to be read. */
                        store(room + k * LANES, r);
                }
                if (left < LANES)
                    for (int64_t k = 0; k < others; k++)
                        for (int64_t i = 0; i < left; i++)
                            own[k * particles + p + i] = room[k * LANES + i];
            }
        }
        for (int64_t p = 0; p < particles; p++)
            value[p] += (double)exponent[p] - log((double)product[p]);
    }
}

/* ---- the whole -------------------------------------------------------------------------------- */

static int64_t up(int64_t number, int64_t to) { return (number + to - 1) / to * to; }

static head plan(int64_t particles, int64_t outputs, int64_t features, int64_t dim, int64_t weight,
                 int64_t bias) {
    head h = {particles, outputs, features, dim, weight, bias};
    h.columns = up((outputs - 1) * particles, PANEL);
    /* An odd number of panels: rows of a power of two would all want the same lines of the cache. */
    h.apart = h.columns + (h.columns / PANEL % 2 ? 0 : PANEL);
    h.tall = up(features + 1, TALL);
    return h;
}

/* Numbers of `work` that a call needs. */
int64_t sbmc_head_room(int64_t particles, int64_t outputs, int64_t features) {
    head h = plan(particles, outputs, features, 0, 0, 0);
    return 2 * h.columns * h.tall + BLOCK * (h.apart + h.columns) + LANES +
           NARROW / TALL * TILE +
           2 * (particles + LANES) + (outputs + 1) * LANES;
}

/* Sums over the examples: log likelihoods (particles) and, unless it is null, their gradients
 * (particles, dim). */
void sbmc_head(int64_t particles, int64_t outputs, int64_t features, int64_t dim, int64_t weight,
               int64_t bias, int64_t examples, const float *theta, const float *input,
               const int32_t *label, float *work, double *value, double *slope) {
    head h = plan(particles, outputs, features, dim, weight, bias);
    int64_t packing = h.columns * h.tall;
    float *packed = work, *sums = packed + packing, *out = sums + packing;
    float *panels = out + BLOCK * h.apart + LANES, *tiles = panels + BLOCK * h.columns;
    float *product = tiles + NARROW / TALL * TILE;
    float *exponent = product + particles + LANES, *room = exponent + particles + LANES;
    pack(&h, theta, packed);
    if (slope) memset(sums, 0, sizeof(float) * packing);
    memset(value, 0, sizeof(double) * particles);
    for (int64_t e = 0; e < examples; e += BLOCK) {
        int64_t some = examples - e < BLOCK ? examples - e : BLOCK;
        const float *rows = input + e * features;
        forward(&h, rows, some, packed, out);
        classes(&h, some, label + e, out, product, exponent, room, value);
        if (slope) backward(&h, rows, some, out, panels, tiles, sums);
    }
    if (slope) unpack(&h, sums, slope);
}
