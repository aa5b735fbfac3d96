/* Mini-batches of a linear layer over classes, each particle with examples of its own.
 *
 * The innermost axis is the feature: rows of the data are read where they are, first for the
 * outputs, sums over features, and then for the gradient, sums of rows. Of K classes K - 1 are left,
 * as in head.c: the first class's weights are subtracted from the others'.
 */
#ifdef __AVX512F__
#define LANES 16
#endif

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "lanes.h"
#include "sums.h"

typedef struct {
    int64_t outputs, features, dim, weight, bias; /* bias < 0: none */
    const float *inputs;                          /* (examples, features) */
    const int32_t *labels;                        /* (examples) */
} head;

/* ---- outputs: `tall` examples times `wide` columns, which make LANES sums ------------------------ */

INLINE void multiply(const float *const *row, const float *weight, int64_t features, float *out,
                     int64_t columns, int64_t apart, const int tall, const int wide) {
    lanes s[LANES];
    UNROLL for (int i = 0; i < LANES; i++) s[i] = (lanes){0};
    int64_t f = 0;
    for (; f + LANES <= features; f += LANES) {
        lanes w[4];
        UNROLL for (int k = 0; k < wide; k++) {
            w[k] = load(weight + k * features + f);
            HOLD(w[k]);
        }
        UNROLL for (int i = 0; i < tall; i++) {
            lanes x = load(row[i] + f);
            HOLD(x);
            UNROLL for (int k = 0; k < wide; k++) s[i * wide + k] += x * w[k];
        }
    }
    lanes sum = sum_each(s);
    for (int i = 0; i < tall; i++)
        for (int k = 0; k < wide && k < columns; k++) {
            float rest = 0;
            for (int64_t g = f; g < features; g++) rest += row[i][g] * weight[k * features + g];
            out[i * apart + k] += sum[i * wide + k] + rest;
        }
}

/* ---- the gradient: sums of rows, for `wide` columns and two vectors of features ------------------- */

INLINE void add_rows(const float *const *row, const float *residual, int64_t apart, int64_t count,
                     int64_t f, float *sums, int64_t features, const int wide) {
    lanes a[4], b[4];
    for (int k = 0; k < wide; k++) a[k] = b[k] = (lanes){0};
    for (int64_t e = 0; e < count; e++, residual += apart) {
        lanes x = load(row[e] + f), y = load(row[e] + f + LANES);
        HOLD(x);
        HOLD(y);
        for (int k = 0; k < wide; k++) {
            lanes r = all(residual[k]);
            a[k] += r * x, b[k] += r * y;
        }
    }
    for (int k = 0; k < wide; k++)
        store(sums + k * features + f, a[k]), store(sums + k * features + f + LANES, b[k]);
}

static void gradient_of(const float *const *row, const float *residual, int64_t apart,
                        int64_t count, int64_t features, float *sums, int64_t columns) {
    int64_t f = 0;
    for (; f + 2 * LANES <= features; f += 2 * LANES) {
        int64_t k = 0;
        for (; k + 4 <= columns; k += 4)
            add_rows(row, residual + k, apart, count, f, sums + k * features, features, 4);
        for (; k + 2 <= columns; k += 2)
            add_rows(row, residual + k, apart, count, f, sums + k * features, features, 2);
        if (k < columns)
            add_rows(row, residual + k, apart, count, f, sums + k * features, features, 1);
    }
    for (; f < features; f++)
        for (int64_t k = 0; k < columns; k++) {
            float sum = 0;
            for (int64_t e = 0; e < count; e++) sum += residual[e * apart + k] * row[e][f];
            sums[k * features + f] = sum;
        }
}

/* ---- classes: log softmax of the label, and residuals in place of the outputs --------------------- */

static double classes(float *out, int64_t columns, int64_t label) {
    float most = 0.0f, given = label ? out[label - 1] : 0.0f;
    for (int64_t k = 0; k < columns; k++) most = out[k] > most || out[k] != out[k] ? out[k] : most;
    float sum = expf(-most);
    for (int64_t k = 0; k < columns; k++) sum += out[k] = expf(out[k] - most);
    for (int64_t k = 0; k < columns; k++) out[k] = (k == label - 1) - out[k] / sum;
    return (double)(given - most) - logf(sum);
}

/* ---- the whole ------------------------------------------------------------------------------------ */

#define COLUMNS 4 /* that are multiplied together, and for which weights are padded */

static int64_t padded(const head *h) { return (h->outputs - 1 + COLUMNS - 1) / COLUMNS * COLUMNS; }

/* Numbers of `work` that a call needs for batches of `size` examples. */
int64_t sbmc_head_batches_room(const head *h, int64_t size) {
    return 2 * padded(h) * (h->features + 1) + size * padded(h) + 2 * size;
}

/* Log likelihoods of `size` examples for each particle, and their gradients times `factor` (dim);
 * see sbmc_batches. */
void sbmc_head_batches(const head *h, int64_t particles, int64_t size, int64_t apart,
                       const float *theta, const int64_t *index, const float *factor, float *work,
                       double *value, float *gradient) {
    int64_t features = h->features, columns = h->outputs - 1, wide = padded(h);
    float *packed = work, *sums = packed + wide * (features + 1);
    float *out = sums + wide * (features + 1);
    const float **row = (const float **)(out + size * wide);
    memset(packed, 0, sizeof(float) * (size_t)(wide * (features + 1)));
    float *bias = packed + wide * features;
    for (int64_t particle = 0; particle < particles; particle++) {
        const float *own = theta + particle * h->dim, *first = own + h->weight;
        float *slope = gradient + particle * h->dim;
        const int64_t *chosen = index + particle * apart;
        for (int64_t k = 0; k < columns; k++) {
            for (int64_t f = 0; f < features; f++)
                packed[k * features + f] = first[(k + 1) * features + f] - first[f];
            if (h->bias >= 0) bias[k] = own[h->bias + k + 1] - own[h->bias];
        }
        for (int64_t e = 0; e < size; e++) {
            row[e] = h->inputs + chosen[e] * features;
            memcpy(out + e * wide, bias, sizeof(float) * (size_t)wide);
        }
        int64_t e = 0;
        if (columns == 1) {
            for (; e + LANES <= size; e += LANES)
                multiply(row + e, packed, features, out + e * wide, 1, wide, LANES, 1);
            for (; e < size; e++)
                multiply(row + e, packed, features, out + e * wide, 1, wide, 1, 1);
        } else {
            for (; e + LANES / 4 <= size; e += LANES / 4)
                for (int64_t k = 0; k < columns; k += 4)
                    multiply(row + e, packed + k * features, features, out + e * wide + k, columns - k,
                             wide, LANES / 4, 4);
            for (; e < size; e++)
                for (int64_t k = 0; k < columns; k += 4)
                    multiply(row + e, packed + k * features, features, out + e * wide + k, columns - k,
                             wide, 1, 4);
        }
        value[particle] = 0;
        for (e = 0; e < size; e++)
            value[particle] += classes(out + e * wide, columns, h->labels[chosen[e]]);
        gradient_of(row, out, wide, size, features, sums, columns);
        memset(slope, 0, sizeof(float) * (size_t)h->dim);
        for (int64_t k = 0; k < columns; k++) {
            float *these = slope + h->weight + (k + 1) * features;
            for (int64_t f = 0; f < features; f++) {
                these[f] = sums[k * features + f];
                slope[h->weight + f] -= these[f];
            }
            if (h->bias < 0) continue;
            float sum = 0;
            for (e = 0; e < size; e++) sum += out[e * wide + k];
            slope[h->bias + k + 1] = sum, slope[h->bias] -= sum;
        }
        for (int64_t i = 0; i < h->dim; i++) slope[i] *= factor[i];
    }
}
