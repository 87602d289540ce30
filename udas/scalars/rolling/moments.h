/* The moments of rows from which a linear model follows: means of the features and the label, and
 * sums of products of their deviations from these. Several rows, or moments of other rows, are
 * added at once (Chan, Golub, LeVeque, Algorithms for computing the sample variance, 1983), and
 * rows removed again, so that a window that slides costs as much for many rows as for few. */
#ifndef TUSK_MOMENTS_H
#define TUSK_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../sentence.h"

/* Zeros are the moments of no rows; tusk_moments_begin gives room for them. */
typedef struct tusk_moments {
    int64_t n_rows;    /* with a weight above 0 */
    int64_t n_skipped; /* with a NULL, or a weight of 0 */
    int64_t n_invalid; /* with a number that is not finite, or a negative weight */
    int64_t n_removed; /* since there were none */
    double weight;     /* of all rows */
    uint32_t width;    /* features, and the label, which comes last; 0: no row yet */
    double *numbers;   /* tusk_moment_numbers(width), set if n_rows > 0: */
} tusk_moments;

/* Rows of numbers are padded with zeros to whole vectors. */
#define TUSK_MOMENT_LANES 4
static inline uint32_t tusk_padded(uint32_t width) {
    return (width + TUSK_MOMENT_LANES - 1) / TUSK_MOMENT_LANES * TUSK_MOMENT_LANES;
}

/* Where a row of the lower triangle of the sums of products begins. */
static inline size_t tusk_product_row(uint32_t i) {
    size_t block = i / TUSK_MOMENT_LANES, within = i % TUSK_MOMENT_LANES;
    return TUSK_MOMENT_LANES * (block + 1) * (TUSK_MOMENT_LANES * block / 2 + within);
}

/* Of `width` numbers: the means, the rows of the triangle, and the largest sums of squares before
 * a row was removed. */
static inline size_t tusk_moment_numbers(uint32_t width) {
    return 2 * (size_t)tusk_padded(width) + tusk_product_row(width);
}
static inline double *tusk_means(const tusk_moments *m) {
    return m->numbers;
}
static inline double *tusk_products(const tusk_moments *m) {
    return m->numbers + tusk_padded(m->width);
}
static inline double *tusk_peaks(const tusk_moments *m) {
    return tusk_products(m) + tusk_product_row(m->width);
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
/* Rows that are added at once. */
#define TUSK_ROWS_AT_ONCE 16

/* Numbers of room for a change of moments. */
static inline size_t tusk_change_numbers(uint32_t width) {
    return 2 * (TUSK_ROWS_AT_ONCE + 1) * (size_t)tusk_padded(width);
}

/* Whether a row of n features fits moments of rows so far; false with a sentence. */
bool tusk_moments_fit(const tusk_moments *m, uint64_t n, char *sentence);
/* Gives moments without rows their width. numbers: tusk_moment_numbers(width), of any value. */
void tusk_moments_begin(tusk_moments *m, uint32_t width, double *numbers);
/* Adds at most TUSK_ROWS_AT_ONCE rows. room: tusk_change_numbers of the caller's. */
void tusk_moments_add(tusk_moments *m, const tusk_moment_row *rows, uint32_t n, double *room);
/* Removes a row that was added. False if the digits that are left do not suffice, or many rows
 * have been removed: the moments must be computed anew of the rows that are left. */
bool tusk_moments_remove(tusk_moments *m, const tusk_moment_row *row, double *room);
/* Adds the moments of other rows, each of the same width or of none. */
void tusk_moments_merge(tusk_moments *m, const tusk_moments *const *others, uint64_t n,
                        double *room);

#endif
