/* One step of Adam for many members, the gradient of a Gaussian prior included. */
#ifdef __AVX512F__
#define LANES 16
#endif

#include <string.h>

#include "lanes.h"

typedef struct {
    float first, second; /* decay rates of both means */
    float rate;          /* the learning rate over 1 - first^t */
    float root;          /* the root of 1 - second^t */
    float epsilon;
    float kept; /* of the weights, where they decay apart from the gradient; else 1 */
} adam;

/* LANES numbers of a member; returns what the prior adds to the loss, twice. */
INLINE lanes advance(const adam *a, float *theta, const float *gradient, const float *centre,
                     const float *precision, float *first, float *second) {
    lanes x = load(theta), m = load(first), v = load(second);
    lanes offset = x;
    if (centre) offset -= load(centre);
    lanes pull = offset * load(precision), g = load(gradient) + pull;
    m += (1.0f - a->first) * (g - m);
    v = a->second * v + (1.0f - a->second) * g * g;
    store(first, m), store(second, v);
    store(theta, a->kept * x - a->rate * m / (square_root(v) / a->root + a->epsilon));
    return pull * offset;
}

/* theta, gradient, first and second are (members, dim), and so is centre, if it is not null;
 * precision is (dim). penalty (members): what the prior adds to the loss, before the step. */
void sbmc_adam(const adam *a, int64_t members, int64_t dim, float *theta, const float *gradient,
               const float *centre, const float *precision, float *first, float *second,
               double *penalty) {
    for (int64_t member = 0; member < members; member++) {
        lanes sum = {0};
        double total = 0;
        int64_t i = 0;
        for (; i + LANES <= dim; i += LANES)
            sum += advance(a, theta + i, gradient + i, centre ? centre + i : 0, precision + i,
                           first + i, second + i);
        if (i < dim) {
            /* The rest, in vectors of its own that end with zeros. */
            float rest[6][LANES] = {0};
            size_t size = sizeof(float) * (size_t)(dim - i);
            float *from[6] = {theta, (float *)gradient, (float *)centre, (float *)precision, first,
                              second};
            for (int k = 0; k < 6; k++)
                if (from[k]) memcpy(rest[k], from[k] + i, size);
            sum += advance(a, rest[0], rest[1], centre ? rest[2] : 0, rest[3], rest[4], rest[5]);
            memcpy(theta + i, rest[0], size), memcpy(first + i, rest[4], size);
            memcpy(second + i, rest[5], size);
        }
        for (int k = 0; k < LANES; k++) total += sum[k];
        penalty[member] = 0.5 * total;
        theta += dim, gradient += dim, first += dim, second += dim;
        if (centre) centre += dim;
    }
}
