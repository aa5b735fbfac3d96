/* Layers of a chain, forward and backward, for one parameter vector and `batch` examples.
 *
 * The innermost axis of every array of activations is the example, `batch` of them together: a
 * convolution of any stride, a pooling of any window and a linear layer are then the same few loops
 * over vectors of examples, and no number has to move within a vector.
 *
 * A value of a layer has an offset: its number in the layer's array, zeros around images included.
 *   apply  out[to[p] + o * apart] = bias[o] + sum over t of weight[o, t] * in[from[p] + tap[t]]
 *   max    out[to[p]] = the largest of in[from[p] + tap[t]]; of equals, the first wins
 *   mean   out[to[p]] = their mean
 * each followed by a ReLU if the layer has one. A linear layer is `apply` at one position. Any other
 * function is a layer of its own:
 *   bend   out[to[p]] = function(in[from[p]])
 *
 * Whoever includes this says how gradients of the parameters are summed, in `apply_weights`.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "lanes.h"

#define PAIR (2 * LANES)

enum { APPLY, MAX, MEAN, BEND };
enum { RELU, TANH, SIGMOID, SILU, GELU, GELU_TANH, LEAKY, ELU, SOFTPLUS };
enum { CATEGORICAL, GAUSSIAN, NOISY, BERNOULLI };

/* Numbers of values, or offsets; `in` and `out` are where the layer's arrays begin. */
typedef struct {
    int64_t kind, relu, in, out, size_in, positions, taps, outputs, apart, weight, bias;
    int64_t covers; /* a pooling whose windows are all of its input; `apart` says if none overlap */
    const int32_t *from, *to, *tap;
    int64_t function; /* of BEND, with its numbers, if it has some */
    float a, b;
} layer;

typedef struct {
    int64_t layers, batch, features, values, outputs, dim, likelihood;
    int64_t targets;       /* numbers of an example's target */
    int64_t noise, noises; /* where in theta the logarithms of noise are, or -1, and how many */
    float precision, df;
    const layer *layer;
} chain;

INLINE lanes rectify(lanes x) { return (lanes)(~(flags)(x <= 0.0f) & (flags)x); }

/* ---- apply: forward, for `width` outputs at one position -------------------------------------- */

INLINE void apply_some(const layer *l, int64_t batch, const float *weight, const float *bias,
                       const float *in, float *out, const int width) {
    int64_t taps = l->taps, e = 0;
    for (; e + PAIR <= batch; e += PAIR) {
        lanes a[6], b[6];
        for (int o = 0; o < width; o++) a[o] = b[o] = all(bias ? bias[o] : 0.0f);
        for (int64_t t = 0; t < taps; t++) {
            const float *x = in + l->tap[t] * batch + e;
            lanes x0 = load(x), x1 = load(x + LANES);
            HOLD(x0);
            HOLD(x1);
            for (int o = 0; o < width; o++) {
                lanes w = all(weight[o * taps + t]);
                a[o] += w * x0, b[o] += w * x1;
            }
        }
        for (int o = 0; o < width; o++) {
            float *y = out + o * l->apart * batch + e;
            store(y, l->relu ? rectify(a[o]) : a[o]);
            store(y + LANES, l->relu ? rectify(b[o]) : b[o]);
        }
    }
    if (e == batch) return;
    /* The last vector of a mini-batch that has an odd number of them. */
    lanes a[6];
    for (int o = 0; o < width; o++) a[o] = all(bias ? bias[o] : 0.0f);
    for (int64_t t = 0; t < taps; t++) {
        lanes x = load(in + l->tap[t] * batch + e);
        HOLD(x);
        for (int o = 0; o < width; o++) a[o] += all(weight[o * taps + t]) * x;
    }
    for (int o = 0; o < width; o++)
        store(out + o * l->apart * batch + e, l->relu ? rectify(a[o]) : a[o]);
}

static void apply_forward(const layer *l, int64_t batch, const float *theta, const float *in,
                          float *out) {
    for (int64_t o = 0, width; o < l->outputs; o += width) {
        int64_t left = l->outputs - o;
        /* No narrow rest where two blocks of middle width do as well. */
        width = left >= 6 && left != 8 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        const float *weight = theta + l->weight + o * l->taps;
        const float *bias = l->bias < 0 ? 0 : theta + l->bias + o;
        for (int64_t p = 0; p < l->positions; p++) {
            const float *x = in + l->from[p] * batch;
            float *y = out + (l->to[p] + o * l->apart) * batch;
            if (width == 6) apply_some(l, batch, weight, bias, x, y, 6);
            else if (width == 4) apply_some(l, batch, weight, bias, x, y, 4);
            else if (width == 2) apply_some(l, batch, weight, bias, x, y, 2);
            else apply_some(l, batch, weight, bias, x, y, 1);
        }
    }
}

/* ---- apply: sums for the weights and biases, which each file makes in its own way ------------- */

static void apply_weights(const layer *l, int64_t batch, const float *in, const float *slope,
                          float *sums);

/* ---- apply: the gradient of its inputs, `depth` taps at one position -------------------------- */

INLINE void return_some(const layer *l, int64_t batch, const float *weight, const float *slope,
                        float *back, int64_t t, const int depth) {
    int64_t e = 0;
    for (; e + PAIR <= batch; e += PAIR) {
        lanes a[6], b[6];
        for (int j = 0; j < depth; j++) {
            const float *x = back + l->tap[t + j] * batch + e;
            a[j] = load(x), b[j] = load(x + LANES);
        }
        for (int64_t o = 0; o < l->outputs; o++) {
            const float *g = slope + o * l->apart * batch + e;
            lanes g0 = load(g), g1 = load(g + LANES);
            HOLD(g0);
            HOLD(g1);
            for (int j = 0; j < depth; j++) {
                lanes w = all(weight[o * l->taps + t + j]);
                a[j] += w * g0, b[j] += w * g1;
            }
        }
        for (int j = 0; j < depth; j++) {
            float *x = back + l->tap[t + j] * batch + e;
            store(x, a[j]), store(x + LANES, b[j]);
        }
    }
    if (e == batch) return;
    lanes a[6];
    for (int j = 0; j < depth; j++) a[j] = load(back + l->tap[t + j] * batch + e);
    for (int64_t o = 0; o < l->outputs; o++) {
        lanes g = load(slope + o * l->apart * batch + e);
        HOLD(g);
        for (int j = 0; j < depth; j++) a[j] += all(weight[o * l->taps + t + j]) * g;
    }
    for (int j = 0; j < depth; j++) store(back + l->tap[t + j] * batch + e, a[j]);
}

static void apply_inputs(const layer *l, int64_t batch, const float *theta, const float *slope,
                         float *back) {
    const float *weight = theta + l->weight;
    for (int64_t p = 0; p < l->positions; p++) {
        const float *g = slope + l->to[p] * batch;
        float *x = back + l->from[p] * batch;
        int64_t t = 0;
        for (; t + 6 <= l->taps; t += 6) return_some(l, batch, weight, g, x, t, 6);
        for (; t + 2 <= l->taps; t += 2) return_some(l, batch, weight, g, x, t, 2);
        if (t < l->taps) return_some(l, batch, weight, g, x, t, 1);
    }
}

/* ---- poolings ---------------------------------------------------------------------------------- */

INLINE void pool_some(const layer *l, int64_t batch, const float *in, float *out, const int max,
                      const int64_t taps) {
    float share = 1.0f / (float)taps;
    for (int64_t p = 0; p < l->positions; p++)
    for (int64_t e = 0; e < batch; e += LANES) {
        const float *x = in + l->from[p] * batch + e;
        lanes y = load(x + l->tap[0] * batch);
        for (int64_t t = 1; t < taps; t++) {
            lanes z = load(x + l->tap[t] * batch);
            /* One that is not a number beats all. */
            y = max ? choose((z > y) | (z != z), z, y) : (lanes)(y + z);
        }
        if (!max) y *= share;
        store(out + l->to[p] * batch + e, l->relu ? rectify(y) : y);
    }
}

static void pool_forward(const layer *l, int64_t batch, const float *in, float *out) {
    if (l->kind == MAX && l->taps == 4) pool_some(l, batch, in, out, 1, 4);
    else pool_some(l, batch, in, out, l->kind == MAX, l->taps);
}

/* Where the layer before has a ReLU, what it held back gets nothing. */
INLINE void unpool_some(const layer *l, int64_t batch, const float *in, const float *out,
                        const float *slope, float *back, const int64_t taps) {
    int rectified = (int)(l - 1)->relu;
    for (int64_t p = 0; p < l->positions; p++)
    for (int64_t e = 0; e < batch; e += LANES) {
        int64_t from = l->from[p] * batch + e, to = l->to[p] * batch + e;
        /* What a ReLU after the pooling has changed has a gradient of zero. */
        lanes g = load(slope + to), y = load(out + to);
        flags open = ~(flags){0};
        for (int64_t t = 0; t < taps; t++) {
            int64_t at = from + l->tap[t] * batch;
            lanes z = load(in + at);
            flags won = open & ((z == y) | (z != z));
            open &= ~won;
            if (rectified) won &= ~(flags)(z <= 0.0f);
            lanes share = (lanes)(won & (flags)g);
            store(back + at, l->apart ? share : (lanes)(load(back + at) + share));
        }
    }
}

static void pool_inputs(const layer *l, int64_t batch, const float *in, const float *out,
                        const float *slope, float *back) {
    if (l->kind == MAX && l->taps == 4) unpool_some(l, batch, in, out, slope, back, 4);
    else if (l->kind == MAX) unpool_some(l, batch, in, out, slope, back, l->taps);
    if (l->kind == MAX) return;
    float share = 1.0f / (float)l->taps;
    int rectified = (int)(l - 1)->relu;
    for (int64_t p = 0; p < l->positions; p++)
    for (int64_t e = 0; e < batch; e += LANES) {
        lanes g = share * load(slope + l->to[p] * batch + e);
        for (int64_t t = 0; t < l->taps; t++) {
            int64_t at = (l->from[p] + l->tap[t]) * batch + e;
            lanes own = g;
            if (rectified) own = (lanes)(~(flags)(load(in + at) <= 0.0f) & (flags)g);
            store(back + at, l->apart ? own : (lanes)(load(back + at) + own));
        }
    }
}

/* ---- functions of one number ------------------------------------------------------------------- */

/* exp(x) - 1 for x <= 0: near 0 without the difference. */
INLINE lanes exponential_less_one(lanes x) {
    lanes y = x * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * x + 8.3334519073e-3f, y = y * x + 4.1665795894e-2f;
    y = y * x + 1.6666665459e-1f, y = y * x + 5.0000001201e-1f;
    return choose(x > -0.34f, y * x * x + x, exponential(x) - 1.0f);
}

INLINE lanes absolute(lanes x) { return (lanes)((flags)x & 0x7FFFFFFF); }
INLINE lanes with_sign_of(lanes x, lanes y) {
    return (lanes)((flags)x | ((flags)y & (int32_t)0x80000000));
}

INLINE lanes tangent(lanes x) {
    lanes e = exponential(-2.0f * absolute(x)), z = x * x;
    lanes far = with_sign_of((1.0f - e) / (1.0f + e), x);
    lanes y = z * -5.70498872745e-3f + 2.06390887954e-2f;
    y = y * z - 5.37397155531e-2f, y = y * z + 1.33314422036e-1f, y = y * z - 3.33332819422e-1f;
    return choose(absolute(x) < 0.625f, y * z * x + x, far);
}

INLINE lanes sigmoid(lanes x) {
    lanes e = exponential(-absolute(x));
    return choose(x < 0.0f, e, all(1.0f)) / (1.0f + e);
}

/* log(1 + e) for 0 <= e <= 1, by the series of the inverse hyperbolic tangent. */
INLINE lanes logarithm_of_more(lanes e) {
    lanes s = e / (2.0f + e), z = s * s;
    lanes y = z * (1.0f / 13) + 1.0f / 11;
    y = y * z + 1.0f / 9, y = y * z + 1.0f / 7, y = y * z + 1.0f / 5, y = y * z + 1.0f / 3;
    return 2.0f * (y * z * s + s);
}

/* The normal distribution function, by a Chebyshev fit of erfc to 1.2e-7 of its value. */
INLINE lanes normal_below(lanes x) {
    lanes z = absolute(x) * 0.70710678f, t = 1.0f / (1.0f + 0.5f * z);
    lanes y = t * 0.17087277f - 0.82215223f;
    y = y * t + 1.48851587f, y = y * t - 1.13520398f, y = y * t + 0.27886807f;
    y = y * t - 0.18628806f, y = y * t + 0.09678418f, y = y * t + 0.37409196f;
    y = y * t + 1.00002368f, y = y * t - 1.26551223f;
    lanes tail = 0.5f * t * exponential(y - z * z);
    return choose(x < 0.0f, tail, 1.0f - tail);
}

/* (1 + tanh(u)) / 2 with the u of that approximation, as the sigmoid of 2 u: no difference. */
#define TWICE_INNER 1.59576912f /* two times the root of 2 / pi */
INLINE lanes gelu_gate(lanes x) { return sigmoid(TWICE_INNER * (x + 0.044715f * x * x * x)); }

INLINE lanes bent(lanes x, float a, float b, const int function) {
    switch (function) {
    case RELU: return rectify(x);
    case TANH: return tangent(x);
    case SIGMOID: return sigmoid(x);
    case SILU: return x * sigmoid(x);
    case GELU: return x * normal_below(x);
    case GELU_TANH: return x * gelu_gate(x);
    case LEAKY: return choose(x > 0.0f, x, a * x);
    case ELU: return choose(x > 0.0f, x, a * exponential_less_one(choose(x > 0.0f, all(0.0f), x)));
    default: { /* SOFTPLUS */
        lanes z = a * x, y = rectify(z) + logarithm_of_more(exponential(-absolute(z)));
        return choose(z > b, x, y / a);
    }
    }
}

INLINE lanes bent_slope(lanes x, lanes y, float a, float b, const int function) {
    lanes t;
    switch (function) {
    case RELU: return (lanes)(~(flags)(x <= 0.0f) & (flags)all(1.0f));
    case TANH: return 1.0f - y * y;
    case SIGMOID: return y * (1.0f - y);
    case SILU: t = sigmoid(x); return t * (1.0f + x * (1.0f - t));
    case GELU: return normal_below(x) + x * 0.39894228f * exponential(-0.5f * x * x);
    case GELU_TANH:
        t = gelu_gate(x);
        return t + x * t * (1.0f - t) * TWICE_INNER * (1.0f + 0.134145f * x * x);
    case LEAKY: return choose(x > 0.0f, all(1.0f), all(a));
    case ELU: return choose(x > 0.0f, all(1.0f), a * exponential(choose(x > 0.0f, all(0.0f), x)));
    default: return choose(a * x > b, all(1.0f), sigmoid(a * x));
    }
}

INLINE void bend_some(const layer *l, int64_t batch, const float *in, float *out, const float *slope,
                      float *back, const int function) {
    for (int64_t p = 0; p < l->positions; p++)
    for (int64_t e = 0; e < batch; e += LANES) {
        int64_t from = l->from[p] * batch + e, to = l->to[p] * batch + e;
        lanes x = load(in + from);
        if (!slope) store(out + to, bent(x, l->a, l->b, function));
        else store(back + from, load(slope + to) * bent_slope(x, load(out + to), l->a, l->b, function));
    }
}

/* Forward, or, if there is a slope, backward. */
static void bend(const layer *l, int64_t batch, const float *in, float *out, const float *slope,
                 float *back) {
    switch (l->function) {
    case RELU: bend_some(l, batch, in, out, slope, back, RELU); break;
    case TANH: bend_some(l, batch, in, out, slope, back, TANH); break;
    case SIGMOID: bend_some(l, batch, in, out, slope, back, SIGMOID); break;
    case SILU: bend_some(l, batch, in, out, slope, back, SILU); break;
    case GELU: bend_some(l, batch, in, out, slope, back, GELU); break;
    case GELU_TANH: bend_some(l, batch, in, out, slope, back, GELU_TANH); break;
    case LEAKY: bend_some(l, batch, in, out, slope, back, LEAKY); break;
    case ELU: bend_some(l, batch, in, out, slope, back, ELU); break;
    default: bend_some(l, batch, in, out, slope, back, SOFTPLUS);
    }
}

/* ---- all layers --------------------------------------------------------------------------------- */

static void all_forward(const chain *c, int64_t batch, const float *theta, const float *input,
                        float *acts) {
    for (int64_t i = 0; i < c->layers; i++) {
        const layer *l = c->layer + i;
        const float *in = i == 0 ? input : acts + l->in * batch;
        if (l->kind == APPLY) apply_forward(l, batch, theta, in, acts + l->out * batch);
        else if (l->kind == BEND) bend(l, batch, in, acts + l->out * batch, 0, 0);
        else pool_forward(l, batch, in, acts + l->out * batch);
    }
}

/* Add what `batch` examples give to the sums of all parameters; the slopes of the outputs are there. */
static void all_backward(const chain *c, int64_t batch, const float *theta, const float *input,
                         float *acts, float *slopes, float *sums) {
    for (int64_t i = c->layers - 1; i >= 0; i--) {
        const layer *l = c->layer + i;
        const float *in = i == 0 ? input : acts + l->in * batch;
        float *y = acts + l->out * batch;
        float *g = slopes + l->out * batch, *back = slopes + l->in * batch;
        /* A pooling has seen to the ReLU of the layer before it. */
        if (l->relu && (i + 1 == c->layers || l[1].kind == APPLY || l[1].kind == BEND))
            for (int64_t o = 0; o < (l->kind == APPLY ? l->outputs : 1); o++)
            for (int64_t p = 0; p < l->positions; p++)
            for (int64_t e = 0; e < batch; e += LANES) {
                int64_t at = (l->to[p] + o * l->apart) * batch + e;
                store(g + at, (lanes)(~(flags)(load(y + at) <= 0.0f) & (flags)load(g + at)));
            }
        if (l->kind == APPLY) apply_weights(l, batch, in, g, sums);
        if (i == 0) break;
        if (!l->covers) memset(back, 0, (size_t)(l->size_in * batch) * sizeof(float));
        if (l->kind == APPLY) apply_inputs(l, batch, theta, g, back);
        else if (l->kind == BEND) bend(l, batch, in, y, g, back);
        else pool_inputs(l, batch, in, y, g, back);
    }
}
