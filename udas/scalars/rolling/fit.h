/* Linear models of least squares, from moments of their rows. */
#ifndef TUSK_ROLLING_FIT_H
#define TUSK_ROLLING_FIT_H

#include "../../rowblock/batch.h"
#include "moments.h"

/* Models that are made by one call, and those of them that are solved at once. */
#define TUSK_MOST_FITS 64
#define TUSK_FIT_LANES 4

/* Models and the numbers that their columns point to. */
typedef struct tusk_fits {
    tusk_models models;
    int64_t group[TUSK_MOST_FITS], n_rows[TUSK_MOST_FITS], n_skipped[TUSK_MOST_FITS];
    int64_t n_features[TUSK_MOST_FITS], iterations[TUSK_MOST_FITS];
    double intercept[TUSK_MOST_FITS], loss[TUSK_MOST_FITS], seconds[TUSK_MOST_FITS];
    uint8_t converged[TUSK_MOST_FITS];
    int64_t none[TUSK_MOST_FITS + 1]; /* offsets of lists */
    int64_t coef[TUSK_MOST_FITS + 1], std_err[TUSK_MOST_FITS + 1];
    int32_t null[TUSK_MOST_FITS], text[TUSK_MOST_FITS]; /* codes */
    int32_t status[TUSK_MOST_FITS], chosen[TUSK_MOST_FITS];
    const char *task, *plan, *options[TUSK_MOST_FITS + 1];
    char own[TUSK_MOST_FITS][96]; /* room for options */
} tusk_fits;

/* Numbers of room for changes of moments and for n fits. */
static inline size_t tusk_fit_numbers(uint32_t width, uint32_t n) {
    size_t system = 2 * tusk_product_row(width) + 5 * (size_t)tusk_padded(width);
    size_t fits = 2 * (size_t)n * width + TUSK_FIT_LANES * system;
    size_t change = tusk_change_numbers(width);
    return fits > change ? fits : change;
}

/* Makes the models of n moments of one width, which stay as they are. n: 1 to TUSK_MOST_FITS.
 * room: tusk_fit_numbers(width, n) numbers of the caller's, which hold the models' lists. */
void tusk_fit_moments(tusk_fits *f, const tusk_moments *const *moments, uint32_t n, double *room);

#endif
