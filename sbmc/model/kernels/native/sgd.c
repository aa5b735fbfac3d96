/* One step of stochastic gradient descent with momentum for many members, the gradient of a Gaussian
 * prior included. */
#include "lanes.h"

typedef struct {
    float rate;     /* the learning rate */
    float momentum; /* what is kept of the velocity */
} sgd;

/* theta, gradient and velocity are (members, dim), and so is centre, if it is not null; precision is
 * (dim). penalty (members): what the prior adds to the loss, before the step. */
void sbmc_sgd(const sgd *a, int64_t members, int64_t dim, float *theta, const float *gradient,
              const float *centre, const float *precision, float *velocity, double *penalty) {
    for (int64_t member = 0; member < members; member++) {
        /* Sums of their own, so that the compiler may take LANES numbers at a time. */
        float sums[LANES] = {0};
        for (int64_t start = 0; start < dim; start += LANES) {
            int64_t count = dim - start < LANES ? dim - start : LANES;
            for (int64_t k = 0; k < count; k++) {
                int64_t i = start + k;
                float offset = centre ? theta[i] - centre[i] : theta[i];
                float pull = offset * precision[i];
                velocity[i] = a->momentum * velocity[i] + (gradient[i] + pull);
                theta[i] -= a->rate * velocity[i];
                sums[k] += pull * offset;
            }
        }
        double total = 0;
        for (int k = 0; k < LANES; k++) total += sums[k];
        penalty[member] = 0.5 * total;
        theta += dim, gradient += dim, velocity += dim;
        if (centre) centre += dim;
    }
}
