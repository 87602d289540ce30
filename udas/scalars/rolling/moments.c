#include "moments.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../../kvstore/mapped/clones.h"

/* A sum of squares that falls below this share of an earlier one has lost digits: each removal
 * leaves a rounding error of the earlier one's size. */
#define LEAST_SHARE 1e-4

bool tusk_moments_fit(const tusk_moments *m, uint64_t n, char *sentence) {
    if (m->width && n + 1 != m->width)
        snprintf(sentence, TUSK_SENTENCE,
                 "a list of features has length %llu, expected %u as in other rows",
                 (unsigned long long)n, m->width - 1);
    else if (n > TUSK_MOST_ROLLING)
        snprintf(sentence, TUSK_SENTENCE,
                 "a list of features has length %llu, expected at most %d: train_model takes more",
                 (unsigned long long)n, TUSK_MOST_ROLLING);
    else
        return true;
    return false;
}

/* products += factor d d'. */
CLONES
static void add_square(double *restrict products, const double *restrict d, double factor,
                       uint32_t width) {
    for (uint32_t i = 0; i < width; i++) {
        double by = factor * d[i];
        for (uint32_t j = 0; j <= i; j++)
            products[j] += by * d[j];
        products += i + 1;
    }
}

/* products += other + factor d d'. */
CLONES
static void add_squares(double *restrict products, const double *restrict other,
                        const double *restrict d, double factor, uint32_t width) {
    for (uint32_t i = 0; i < width; i++) {
        double by = factor * d[i];
        for (uint32_t j = 0; j <= i; j++)
            products[j] += other[j] + by * d[j];
        products += i + 1;
        other += i + 1;
    }
}

/* The features and the label as doubles in `out`; whether all are finite. */
static bool read_row(const tusk_moment_row *row, double *out) {
    if (row->doubles)
        memcpy(out, row->doubles, row->n * sizeof *out);
    else
        for (uint64_t i = 0; i < row->n; i++)
            out[i] = (double)row->floats[i];
    out[row->n] = row->label;
    double nothing = 0;
    for (uint64_t i = 0; i <= row->n; i++)
        nothing += out[i] * 0;
    return nothing == 0 && row->weight >= 0 && isfinite(row->weight);
}

void tusk_moments_add(tusk_moments *m, const tusk_moment_row *row, double *room) {
    double *x = room, *d = room + m->width, *mean = tusk_means(m);
    if (!read_row(row, x)) {
        m->n_invalid++;
        return;
    }
    if (row->weight == 0) {
        m->n_skipped++;
        return;
    }
    double before = m->weight;
    m->n_rows++;
    m->weight += row->weight;
    double share = row->weight / m->weight;
    for (uint32_t i = 0; i < m->width; i++) {
        d[i] = x[i] - mean[i];
        mean[i] += share * d[i];
    }
    add_square(tusk_products(m), d, share * before, m->width);
}

/* Makes the moments those of no rows, of the same width. */
static void clear(tusk_moments *m) {
    m->n_rows = m->n_removed = 0;
    m->weight = 0;
    memset(m->numbers, 0, tusk_moment_numbers(m->width) * sizeof *m->numbers);
}

/* Whether the sums of squares are all of a size that keeps their digits. */
static bool keeps_digits(const tusk_moments *m) {
    const double *peak = tusk_peaks(m), *square = tusk_products(m);
    for (uint32_t i = 0; i < m->width; i++) {
        if (!(square[i] >= LEAST_SHARE * peak[i]))
            return false;
        square += i + 2;
    }
    return true;
}

bool tusk_moments_remove(tusk_moments *m, const tusk_moment_row *row, double *room) {
    double *x = room, *d = room + m->width, *mean = tusk_means(m), *peak = tusk_peaks(m);
    if (!read_row(row, x)) {
        m->n_invalid--;
        return true;
    }
    if (row->weight == 0) {
        m->n_skipped--;
        return true;
    }
    if (m->n_rows == 1) {
        clear(m);
        return true;
    }
    const double *square = tusk_products(m);
    for (uint32_t i = 0; i < m->width; i++) {
        peak[i] = fmax(peak[i], *square);
        square += i + 2;
    }
    m->n_rows--;
    m->n_removed++;
    m->weight -= row->weight;
    double share = row->weight / m->weight;
    for (uint32_t i = 0; i < m->width; i++) {
        d[i] = x[i] - mean[i];
        mean[i] -= share * d[i];
    }
    add_square(tusk_products(m), d, -(share * (m->weight + row->weight)), m->width);
    return m->n_removed <= 2 * m->n_rows + 32 && m->weight > LEAST_SHARE * row->weight &&
           keeps_digits(m);
}

void tusk_moments_merge(tusk_moments *m, const tusk_moments *other, double *room) {
    m->n_skipped += other->n_skipped;
    m->n_invalid += other->n_invalid;
    if (!other->n_rows)
        return;
    double before = m->weight, *mean = tusk_means(m);
    const double *means = tusk_means(other);
    m->n_rows += other->n_rows;
    m->n_removed += other->n_removed;
    m->weight += other->weight;
    double share = other->weight / m->weight;
    for (uint32_t i = 0; i < m->width; i++) {
        room[i] = means[i] - mean[i];
        mean[i] += share * room[i];
    }
    add_squares(tusk_products(m), tusk_products(other), room, share * before, m->width);
}
