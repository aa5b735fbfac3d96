/* A chain of layers, its likelihood and its gradient, for many particles and all of the data.
 *
 * Gradients of the parameters are summed in eight lanes, and the lanes in double precision. Every
 * sum is made in an order that the sizes alone decide.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "layers.h"
#include "densities.h"

/* ---- apply: sums for the weights, `width` outputs times `depth` taps -------------------------- */

INLINE void weigh_some(const layer *l, int64_t batch, const float *in, const float *slope,
                       int64_t o, int64_t t, float *sums, const int width, const int depth) {
    lanes s[4][3];
    lanes *sum = (lanes *)sums + o * l->taps + t;
    const float *x[3], *g[4];
    for (int j = 0; j < depth; j++) x[j] = in + l->tap[t + j] * batch;
    for (int i = 0; i < width; i++) g[i] = slope + (o + i) * l->apart * batch;
    for (int i = 0; i < width; i++)
        for (int j = 0; j < depth; j++) s[i][j] = sum[i * l->taps + j];
    for (int64_t p = 0; p < l->positions; p++) {
        int64_t from = l->from[p] * batch, to = l->to[p] * batch;
        for (int64_t e = 0; e < batch; e += LANES) {
            lanes y[3];
            for (int j = 0; j < depth; j++) {
                y[j] = load(x[j] + from + e);
                HOLD(y[j]);
            }
            for (int i = 0; i < width; i++) {
                lanes h = load(g[i] + to + e);
                HOLD(h);
                for (int j = 0; j < depth; j++) s[i][j] += h * y[j];
            }
        }
    }
    for (int i = 0; i < width; i++)
        for (int j = 0; j < depth; j++) sum[i * l->taps + j] = s[i][j];
}

static void apply_weights(const layer *l, int64_t batch, const float *in, const float *slope,
                          float *sums) {
    for (int64_t o = 0, width; o < l->outputs; o += width) {
        int64_t left = l->outputs - o;
        width = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        for (int64_t t = 0, depth; t < l->taps; t += depth) {
            depth = l->taps - t >= 3 ? 3 : 1;
            float *to = sums + l->weight * LANES;
            if (width == 4 && depth == 3) weigh_some(l, batch, in, slope, o, t, to, 4, 3);
            else if (width == 4) weigh_some(l, batch, in, slope, o, t, to, 4, 1);
            else if (width == 2 && depth == 3) weigh_some(l, batch, in, slope, o, t, to, 2, 3);
            else if (width == 2) weigh_some(l, batch, in, slope, o, t, to, 2, 1);
            else if (depth == 3) weigh_some(l, batch, in, slope, o, t, to, 1, 3);
            else weigh_some(l, batch, in, slope, o, t, to, 1, 1);
        }
    }
    if (l->bias < 0) return;
    for (int64_t o = 0; o < l->outputs; o++) {
        lanes sum = {0};
        for (int64_t p = 0; p < l->positions; p++) {
            const float *g = slope + (l->to[p] + o * l->apart) * batch;
            for (int64_t e = 0; e < batch; e += LANES) sum += load(g + e);
        }
        ((lanes *)sums)[l->bias + o] += sum;
    }
}

/* ---- likelihoods: the sum over examples first <= e < last, and the outputs' gradient ----------- */

static double categorical(int64_t outputs, int64_t batch, const int32_t *label, int64_t first,
                          int64_t last, const float *out, float *slope) {
    double value = 0;
    for (int64_t e = 0; e < batch; e += LANES) {
        lanes most = load(out + e), sum = {0};
        for (int64_t k = 1; k < outputs; k++) {
            lanes z = load(out + k * batch + e);
            most = choose((z > most) | (z != z), z, most);
        }
        for (int64_t i = 0; i < LANES; i++)
            if (e + i >= first && e + i < last)
                value += out[label[e + i] * batch + e + i] - most[i];
        for (int64_t k = 0; k < outputs; k++) {
            lanes z = exponential(load(out + k * batch + e) - most);
            sum += z;
            if (slope) store(slope + k * batch + e, z);
        }
        for (int64_t i = 0; i < LANES; i++)
            if (e + i >= first && e + i < last)
                value -= logf(sum[i]);
        if (!slope) continue;
        lanes over = 1.0f / sum;
        flags index = COUNTED, given = *(const flags *)(label + e);
        index += (int32_t)e;
        flags inside = (index >= (int32_t)first) & (index < (int32_t)last);
        for (int64_t k = 0; k < outputs; k++) {
            float *g = slope + k * batch + e;
            lanes hit = (lanes)((given == (int32_t)k) & (flags)all(1.0f));
            store(g, (lanes)(inside & (flags)(hit - load(g) * over)));
        }
    }
    return value;
}

static double gaussian(const chain *c, int64_t batch, const float *target, int64_t first,
                       int64_t last, const float *out, float *slope) {
    double value = 0;
    for (int64_t k = 0; k < c->outputs; k++)
    for (int64_t e = 0; e < batch; e++) {
        int64_t at = k * batch + e;
        int inside = e >= first && e < last;
        float error = inside ? target[at] - out[at] : 0.0f;
        value -= 0.5 * (double)(error * error * c->precision);
        if (slope) slope[at] = inside ? error * c->precision : 0.0f;
    }
    return value;
}

/* ---- the whole ---------------------------------------------------------------------------------- */

static double one_batch(const chain *c, int64_t batch, const float *theta, const float *input,
                        const void *target, int64_t first, int64_t last, float *acts, float *slopes,
                        float *sums) {
    all_forward(c, batch, theta, input, acts);
    const layer *end = c->layer + c->layers - 1;
    const float *out = acts + end->out * batch;
    float *slope = slopes ? slopes + end->out * batch : 0;
    double value = 0;
    lanes tilt[MOST_NOISES];
    if (c->likelihood == CATEGORICAL)
        value = categorical(c->outputs, batch, (const int32_t *)target, first, last, out, slope);
    else if (c->likelihood == GAUSSIAN)
        value = gaussian(c, batch, (const float *)target, first, last, out, slope);
    else if (c->likelihood == BERNOULLI)
        value = bernoulli(c, batch, (const float *)target, first, last, out, slope);
    else
        value = noisy(c, batch, theta, (const float *)target, first, last, out, slope, tilt);
    if (slopes && c->noise >= 0)
        for (int64_t i = 0; i < c->noises; i++) ((lanes *)sums)[c->noise + i] += tilt[i];
    if (slopes) all_backward(c, batch, theta, input, acts, slopes, sums);
    return value;
}

/* Sums over the examples first <= i < last for each of `particles` vectors theta (particles, dim).
 *
 * input (batches, features, batch), target (batches, targets, batch); acts and slopes have
 * room for (values, batch), acts all zeros; sums for (dim, LANES). Without slopes there are no
 * gradients. value (particles), gradient (particles, dim). */
void sbmc_chain(const chain *c, int64_t particles, int64_t first, int64_t last, const float *theta,
                const float *input, const void *target, float *acts, float *slopes, float *sums,
                double *value, double *gradient) {
    int64_t each = c->targets * c->batch;
    for (int64_t particle = 0; particle < particles; particle++) {
        const float *own = theta + particle * c->dim;
        value[particle] = 0;
        if (slopes) memset(sums, 0, (size_t)(c->dim * LANES) * sizeof(float));
        for (int64_t start = first / c->batch * c->batch; start < last; start += c->batch)
            value[particle] += one_batch(
                c, c->batch, own, input + start * c->features,
                (const char *)target + start / c->batch * each * 4, first - start, last - start, acts,
                slopes, sums);
        if (slopes)
            for (int64_t i = 0; i < c->dim; i++) {
                const float *s = sums + i * LANES;
                gradient[particle * c->dim + i] = (((double)s[0] + s[1]) + ((double)s[2] + s[3])) +
                                                  (((double)s[4] + s[5]) + ((double)s[6] + s[7]));
            }
    }
}

/* The outputs (particles, batches, outputs, batch) of all examples in `batches` batches. */
void sbmc_chain_outputs(const chain *c, int64_t particles, int64_t batches, const float *theta,
                        const float *input, float *acts, float *outputs) {
    int64_t size = c->outputs * c->batch;
    const float *out = acts + c->layer[c->layers - 1].out * c->batch;
    for (int64_t particle = 0; particle < particles; particle++)
    for (int64_t i = 0; i < batches; i++) {
        all_forward(c, c->batch, theta + particle * c->dim, input + i * c->features * c->batch, acts);
        memcpy(outputs + (particle * batches + i) * size, out, (size_t)size * sizeof(float));
    }
}
