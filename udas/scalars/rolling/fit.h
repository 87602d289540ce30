/* The linear model of least squares, from moments of its rows. */
#ifndef TUSK_ROLLING_FIT_H
#define TUSK_ROLLING_FIT_H

#include "../../rowblock/batch.h"
#include "moments.h"

/* A model and the numbers that its columns point to. All zero bytes: none yet. */
typedef struct tusk_fit {
    tusk_models models; /* one */
    int64_t group, n_rows, n_skipped, n_features, iterations;
    double intercept, loss, seconds;
    uint8_t converged;
    int64_t none[2], coef[2], std_err[2]; /* offsets of lists */
    int32_t null, text, status;           /* codes */
    const char *task, *plan, *options;
    char own[96]; /* room for options */
} tusk_fit;

/* Numbers of room for a fit. */
static inline size_t tusk_fit_numbers(uint32_t width) {
    return 2 * (size_t)width * (width + 1) + 8 * (size_t)width;
}

/* Makes the model of the moments, which stay as they are. room: tusk_fit_numbers(m->width)
 * numbers of the caller's, which hold the model's lists. */
void tusk_fit_moments(tusk_fit *f, const tusk_moments *m, double *room);

#endif
