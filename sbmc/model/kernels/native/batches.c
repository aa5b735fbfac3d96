/* Mini-batches of a chain of layers: value and gradient, each particle with examples of its own.
 *
 * The examples stay where they are. Those of a particle are gathered side by side, and go through
 * in pieces that stay in cache. All of a piece goes through before a weight's sum is closed, so that
 * its lanes are added while they are in registers: vectors of sixteen numbers where the processor
 * has them, which fifty examples fill better than the time for eight would suggest.
 */
#ifdef __AVX512F__
#define LANES 16
#endif

#include "layers.h"
#include "densities.h"
#include "sums.h"

/* ---- apply: sums for the weights, LANES of them at a time --------------------------------------- */

/* `width` outputs times `depth` taps, of which at most LANES / width. */
INLINE void weigh_some(const layer *l, int64_t batch, const float *in, const float *slope, int64_t o,
                       int64_t t, float *sums, const int width, const int depth) {
    const int wide = LANES / width; /* sums of one output */
    lanes s[LANES];
    const float *x[LANES], *g[4];
    for (int i = 0; i < LANES; i++) s[i] = (lanes){0};
    for (int j = 0; j < depth; j++) x[j] = in + l->tap[t + j] * batch;
    for (int i = 0; i < width; i++) g[i] = slope + (o + i) * l->apart * batch;
    for (int64_t p = 0; p < l->positions; p++) {
        int64_t from = l->from[p] * batch, to = l->to[p] * batch;
        for (int64_t e = 0; e < batch; e += LANES) {
            lanes h[4];
            for (int i = 0; i < width; i++) {
                h[i] = load(g[i] + to + e);
                HOLD(h[i]);
            }
            for (int j = 0; j < depth; j++) {
                lanes y = load(x[j] + from + e);
                HOLD(y);
                for (int i = 0; i < width; i++) s[i * wide + j] += h[i] * y;
            }
        }
    }
    lanes sum = sum_each(s);
    for (int i = 0; i < width; i++) {
        float *to = sums + l->weight + (o + i) * l->taps + t;
        for (int j = 0; j < depth; j++) to[j] += sum[i * wide + j];
    }
}

INLINE void weigh_outputs(const layer *l, int64_t batch, const float *in, const float *slope,
                          int64_t o, float *sums, const int width) {
    const int wide = LANES / width;
    int64_t t = 0;
    for (; t + wide <= l->taps; t += wide) weigh_some(l, batch, in, slope, o, t, sums, width, wide);
    for (; t + 2 <= l->taps; t += 2) weigh_some(l, batch, in, slope, o, t, sums, width, 2);
    if (t < l->taps) weigh_some(l, batch, in, slope, o, t, sums, width, 1);
}

static void apply_weights(const layer *l, int64_t batch, const float *in, const float *slope,
                          float *sums) {
    int64_t o = 0;
    for (; o + 4 <= l->outputs; o += 4) weigh_outputs(l, batch, in, slope, o, sums, 4);
    for (; o + 2 <= l->outputs; o += 2) weigh_outputs(l, batch, in, slope, o, sums, 2);
    if (o < l->outputs) weigh_outputs(l, batch, in, slope, o, sums, 1);
    if (l->bias < 0) return;
    for (o = 0; o < l->outputs; o += LANES) {
        lanes s[LANES];
        for (int i = 0; i < LANES; i++) {
            s[i] = (lanes){0};
            for (int64_t p = 0; p < (o + i < l->outputs ? l->positions : 0); p++) {
                const float *g = slope + (l->to[p] + (o + i) * l->apart) * batch;
                for (int64_t e = 0; e < batch; e += LANES) s[i] += load(g + e);
            }
        }
        lanes sum = sum_each(s);
        for (int i = 0; i < LANES && o + i < l->outputs; i++) sums[l->bias + o + i] += sum[i];
    }
}

/* ---- likelihoods of the first `count` of `slots` examples, and the outputs' gradient ------------ */

static double categorical(int64_t outputs, int64_t slots, const int32_t *label, int64_t count,
                          const float *out, float *slope) {
    lanes value = {0};
    for (int64_t e = 0; e < slots; e += LANES) {
        flags index = COUNTED, given = *(const flags *)(label + e);
        flags inside = index + (int32_t)e < (int32_t)count;
        lanes most = load(out + e), hit = most, sum = {0};
        for (int64_t k = 1; k < outputs; k++) {
            lanes z = load(out + k * slots + e);
            most = choose((z > most) | (z != z), z, most);
            hit = choose(given == (int32_t)k, z, hit);
        }
        for (int64_t k = 0; k < outputs; k++) {
            lanes z = exponential(load(out + k * slots + e) - most);
            sum += z;
            store(slope + k * slots + e, z);
        }
        value += (lanes)(inside & (flags)(hit - most - logarithm(sum)));
        lanes over = 1.0f / sum;
        for (int64_t k = 0; k < outputs; k++) {
            float *g = slope + k * slots + e;
            lanes one = (lanes)((given == (int32_t)k) & (flags)all(1.0f));
            store(g, (lanes)(inside & (flags)(one - load(g) * over)));
        }
    }
    return sum_over(value);
}

static double gaussian(const chain *c, int64_t slots, const float *target, int64_t count,
                       const float *out, float *slope) {
    lanes value = {0};
    for (int64_t k = 0; k < c->outputs; k++)
    for (int64_t e = 0; e < slots; e += LANES) {
        flags index = COUNTED, inside = index + (int32_t)e < (int32_t)count;
        int64_t at = k * slots + e;
        lanes error = (lanes)(inside & (flags)(load(target + at) - load(out + at)));
        value -= 0.5f * c->precision * error * error;
        store(slope + at, c->precision * error);
    }
    return sum_over(value);
}

/* ---- the whole ---------------------------------------------------------------------------------- */

/* The data as they are, and where each number of an example goes among zeros around an image. */
typedef struct {
    int64_t features;      /* of an example, without zeros around it */
    int64_t margins;       /* whether some layer, or the input, has zeros around it */
    const int32_t *offset; /* of each feature in the input of the first layer */
    const float *inputs;   /* (examples, features) */
    const void *targets;   /* (examples) labels or (examples, targets) */
} examples;

/* Lay `count` examples side by side in `slots` of them. Slots that are left over repeat the last
 * example; the likelihood leaves them out. */
static void gather(const chain *c, const examples *data, const int64_t *index, int64_t count,
                   int64_t slots, float *input, float *target) {
    for (int64_t e = 0; e < slots; e += LANES) {
        const float *row[LANES];
        int64_t chosen[LANES];
        for (int64_t i = 0; i < LANES; i++) {
            chosen[i] = index[e + i < count ? e + i : count - 1];
            row[i] = data->inputs + chosen[i] * data->features;
        }
        for (int64_t f = 0; f < data->features; f++) {
            lanes x;
            for (int i = 0; i < LANES; i++) x[i] = row[i][f];
            store(input + data->offset[f] * slots + e, x);
        }
        for (int64_t i = 0; i < LANES; i++)
            if (c->likelihood == CATEGORICAL)
                ((int32_t *)target)[e + i] = ((const int32_t *)data->targets)[chosen[i]];
            else
                for (int64_t k = 0; k < c->targets; k++)
                    target[k * slots + e + i] =
                        ((const float *)data->targets)[chosen[i] * c->targets + k];
    }
}

static int64_t slots_of(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

/* Numbers of `work` that a call needs for pieces of `piece` examples. */
int64_t sbmc_batches_room(const chain *c, int64_t piece) {
    return (c->features + 2 * c->values + c->outputs) * slots_of(piece);
}

/* Log likelihoods of `size` examples for each particle, and their gradients times `factor` (dim).
 *
 * The examples of a particle are in its row of index, and rows are `apart` numbers apart. They go
 * through in pieces of at most `piece`, so that arrays stay in cache. theta and gradient are
 * (particles, dim), value (particles). */
void sbmc_batches(const chain *c, const examples *data, int64_t particles, int64_t size,
                  int64_t apart, int64_t piece, const float *theta, const int64_t *index,
                  const float *factor, float *work, double *value, float *gradient) {
    int64_t most = slots_of(piece), laid = 0; /* slots of the piece before */
    float *input = work, *acts = input + c->features * most, *slopes = acts + c->values * most;
    float *target = slopes + c->values * most;
    const layer *end = c->layer + c->layers - 1;
    for (int64_t particle = 0; particle < particles; particle++) {
        const float *own = theta + particle * c->dim;
        float *sums = gradient + particle * c->dim;
        value[particle] = 0;
        memset(sums, 0, (size_t)c->dim * sizeof(float));
        for (int64_t first = 0; first < size; first += piece) {
            int64_t count = size - first < piece ? size - first : piece, slots = slots_of(count);
            if (data->margins && slots != laid)
                memset(input, 0, (size_t)((c->features + c->values) * most) * sizeof(float));
            laid = slots;
            gather(c, data, index + particle * apart + first, count, slots, input, target);
            all_forward(c, slots, own, input, acts);
            const float *out = acts + end->out * slots;
            float *slope = slopes + end->out * slots;
            lanes tilt[MOST_NOISES];
            if (c->likelihood == CATEGORICAL)
                value[particle] +=
                    categorical(c->outputs, slots, (const int32_t *)target, count, out, slope);
            else if (c->likelihood == GAUSSIAN)
                value[particle] += gaussian(c, slots, target, count, out, slope);
            else if (c->likelihood == BERNOULLI)
                value[particle] += bernoulli(c, slots, target, 0, count, out, slope);
            else
                value[particle] += noisy(c, slots, own, target, 0, count, out, slope, tilt);
            if (c->noise >= 0)
                for (int64_t i = 0; i < c->noises; i++)
                    sums[c->noise + i] += (float)sum_over(tilt[i]);
            all_backward(c, slots, own, input, acts, slopes, sums);
        }
        for (int64_t i = 0; i < c->dim; i++) sums[i] *= factor[i];
    }
}
