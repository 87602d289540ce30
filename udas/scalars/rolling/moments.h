/* The moments of rows from which a linear model follows: means of the features and the label, and
 * sums of products of their deviations from these. Rows are added one by one, moments of other
 * rows at once (Chan, Golub, LeVeque, Algorithms for computing the sample variance, 1983), and
 * rows removed again, so that a window that slides costs as much for many rows as for few. */
#ifndef TUSK_MOMENTS_H
#define TUSK_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../sentence.h"

/* Zeros are the moments of no rows; `width` is set with room for them. */
typedef struct tusk_moments {
    int64_t n_rows;    /* with a weight above 0 */
    int64_t n_skipped; /* with a NULL, or a weight of 0 */
    int64_t n_invalid; /* with a number that is not finite, or a negative weight */
    int64_t n_removed; /* since there were none */
    double weight;     /* of all rows */
    uint32_t width;    /* features, and the label, which comes last; 0: no row yet */
    double *numbers;   /* tusk_moment_numbers(width): */
} tusk_moments;

/* Of `width` numbers: the means, the largest sums of squares before a row was removed, and the
 * rows of the lower triangle of the sums of products. */
static inline size_t tusk_moment_numbers(uint32_t width) {
    return 2 * (size_t)width + (size_t)width * (width + 1) / 2;
}
static inline double *tusk_means(const tusk_moments *m) {
    return m->numbers;
}
static inline double *tusk_peaks(const tusk_moments *m) {
    return m->numbers + m->width;
}
static inline double *tusk_products(const tusk_moments *m) {
    return m->numbers + 2 * (size_t)m->width;
}

/* A row: width - 1 features, either as float or as double, the label and the weight. */
typedef struct tusk_moment_row {
    const double *doubles;
    const float *floats;
    uint64_t n;
    double label, weight;
} tusk_moment_row;

/* More features than this need a training by train_model. */
#define TUSK_MOST_ROLLING 256

/* Whether a row of n features fits moments of rows so far; false with a sentence. */
bool tusk_moments_fit(const tusk_moments *m, uint64_t n, char *sentence);
/* Adds a row. room: 2 * width numbers of the caller's. */
void tusk_moments_add(tusk_moments *m, const tusk_moment_row *row, double *room);
/* Removes a row that was added. False if the digits that are left do not suffice, or many rows
 * have been removed: the moments must be computed anew of the rows that are left. */
bool tusk_moments_remove(tusk_moments *m, const tusk_moment_row *row, double *room);
/* Adds the moments of other rows, of the same width. */
void tusk_moments_merge(tusk_moments *m, const tusk_moments *other, double *room);

#endif
