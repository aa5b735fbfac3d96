/* Likelihoods with noise of their own, and of labels that are on or off: the sum over the examples
 * first <= e < last of a batch, and the outputs' gradient, unless `slope` is null.
 *
 * Noise is a logarithm for each location: a further output, or a parameter of theta, whose gradient
 * is then in `tilt`, one vector for each of them. Up to 20 a logarithm is as it is, and beyond it
 * grows like a logarithm itself, so that its exponential is a float from any start.
 */
#define MOST_NOISES 64

INLINE flags between(int64_t e, int64_t first, int64_t last) {
    flags index = COUNTED;
    index += (int32_t)e;
    return (index >= (int32_t)first) & (index < (int32_t)last);
}

INLINE double sum_over(lanes x) {
    double sum = 0;
    for (int i = 0; i < LANES; i++) sum += x[i];
    return sum;
}

INLINE lanes softened(lanes x, lanes *bend) {
    lanes size = choose(x < 0.0f, -x, x), most = all(20.0f);
    lanes far = choose(size > most, size - most, (lanes){0}) + 1.0f;
    lanes near = choose(x > most, most, choose(x < -most, -most, x)), more = logarithm(far);
    *bend = 1.0f / far;
    return near + choose(x < 0.0f, -more, more);
}

/* Gaussian noise, or that of Student's t with c->df degrees of freedom. The constant is left out. */
static double noisy(const chain *c, int64_t batch, const float *theta, const float *target,
                    int64_t first, int64_t last, const float *out, float *slope, lanes *tilt) {
    double value = 0;
    float share = c->df > 0 ? (c->df + 1) / c->df : 1.0f;
    for (int64_t i = 0; i < c->noises; i++) tilt[i] = (lanes){0};
    for (int64_t k = 0; k < c->targets; k++)
    for (int64_t e = 0; e < batch; e += LANES) {
        int64_t at = k * batch + e, own = c->noises == 1 ? 0 : k, other = c->targets * batch + at;
        flags inside = between(e, first, last);
        lanes bend, raw = c->noise < 0 ? load(out + other) : all(theta[c->noise + own]);
        lanes logs = softened(raw, &bend);
        lanes inverse = exponential(-logs); /* of up to 34 */
        lanes error = (lanes)(inside & (flags)(load(target + at) - load(out + at)));
        lanes square = error * error * inverse, density, pull = error * inverse;
        if (c->df > 0) {
            lanes tail = 1.0f + square / c->df;
            density = logs + (c->df + 1) * logarithm(tail);
            pull = share * pull / tail, square = share * square / tail;
        } else
            density = logs + square;
        value -= 0.5 * sum_over((lanes)(inside & (flags)density));
        if (!slope) continue;
        lanes turn = (lanes)(inside & (flags)(0.5f * (square - 1.0f) * bend));
        store(slope + at, pull);
        if (c->noise < 0) store(slope + other, turn);
        else tilt[own] += turn;
    }
    return value;
}

/* log p = y z - log(1 + exp z) of each output, with labels y of 0 or 1. */
static double bernoulli(const chain *c, int64_t batch, const float *target, int64_t first,
                        int64_t last, const float *out, float *slope) {
    double value = 0;
    for (int64_t k = 0; k < c->outputs; k++)
    for (int64_t e = 0; e < batch; e += LANES) {
        int64_t at = k * batch + e;
        flags inside = between(e, first, last);
        lanes z = load(out + at), y = load(target + at);
        lanes small = exponential(choose(z < 0.0f, z, -z)), all_of = 1.0f + small;
        lanes density = y * z - choose(z < 0.0f, (lanes){0}, z) - logarithm(all_of);
        value += sum_over((lanes)(inside & (flags)density));
        if (!slope) continue;
        lanes chance = choose(z < 0.0f, small, all(1.0f)) / all_of;
        store(slope + at, (lanes)(inside & (flags)(y - chance)));
    }
    return value;
}
