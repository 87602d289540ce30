#include "moments.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../../kvstore/mapped/clones.h"

/* A sum of squares that falls below this share of an earlier one has lost digits: each removal
 * leaves a rounding error of the earlier one's size. */
#define LEAST_SHARE 1e-4
#define EXPONENT UINT64_C(0x7ff0000000000000)
#define LANES TUSK_MOMENT_LANES
typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));

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

void tusk_moments_begin(tusk_moments *m, uint32_t width, double *numbers) {
    m->width = width;
    m->numbers = numbers;
    memset(tusk_peaks(m), 0, width * sizeof *numbers);
}

/* --- sums of products --- */

/* Deviations of n rows from means, and the same times the rows' weights. */
typedef struct deviations {
    const double *plain, *weighted;
    uint32_t n, padded;
} deviations;

/* Terms of sums of products; NULL are zeros. */
typedef struct terms {
    const double *first, *second;
} terms;

static inline void add_to(lanes *sum, const double *term) {
    lanes t;
    memcpy(&t, term, sizeof t);
    *sum += t;
}

/* Sums of products of features i .. i + LANES - 1 with those of `blocks` vectors from j on, which
 * fit registers. Those of the first `rows` features are written. */
static inline __attribute__((always_inline)) void add_tile(double *out, terms of,
                                                           const deviations *d, uint32_t i,
                                                           uint32_t j, uint32_t rows,
                                                           const int blocks) {
    lanes sums[LANES][2] = {0};
    for (uint32_t k = 0; k < d->n; k++) {
        const double *left = d->weighted + (size_t)k * d->padded + i;
        const double *right = d->plain + (size_t)k * d->padded + j;
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++) {
            lanes v;
            memcpy(&v, right + b * LANES, sizeof v);
#pragma GCC unroll 4
            for (int r = 0; r < LANES; r++)
                sums[r][b] += left[r] * v;
        }
    }
#pragma GCC unroll 4
    for (uint32_t r = 0; r < LANES; r++)
        for (int b = 0; b < blocks && r < rows; b++) {
            size_t at = (size_t)r * (i + LANES) + j + (uint32_t)b * LANES;
            if (of.first)
                add_to(&sums[r][b], of.first + at);
            if (of.second)
                add_to(&sums[r][b], of.second + at);
            memcpy(out + at, &sums[r][b], sizeof sums[r][b]);
        }
}

/* out = the terms + the sums of weighted products of deviations; `out` may be a term. */
CLONES
static void add_products(double *out, terms of, const deviations *d, uint32_t width) {
    for (uint32_t i = 0; i < width; i += LANES) {
        uint32_t rows = width - i < LANES ? width - i : LANES, j = 0;
        for (; j + LANES <= i; j += 2 * LANES)
            add_tile(out, of, d, i, j, rows, 2);
        if (j <= i)
            add_tile(out, of, d, i, j, rows, 1);
        size_t length = (size_t)rows * (i + LANES);
        out += length;
        of.first = of.first ? of.first + length : NULL;
        of.second = of.second ? of.second + length : NULL;
    }
}

CLONES
static void add_all(double *restrict out, const double *restrict other, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] += other[i];
}

/* --- changes --- */

/* Moves the means to those of the moments' rows and n further ones, which are given by their
 * deviations from the means so far. Makes these the deviations from the new means, and appends
 * those of the former means. Returns how many there are, with factors in `weights`. */
CLONES
static uint32_t move_means(tusk_moments *m, double *restrict d, double *restrict weights,
                           uint32_t n) {
    uint32_t padded = tusk_padded(m->width);
    double *restrict mean = tusk_means(m), *restrict moved = d + (size_t)n * padded;
    double before = m->weight;
    for (uint32_t k = 0; k < n; k++)
        m->weight += weights[k];
    memset(moved, 0, padded * sizeof *moved);
    for (uint32_t k = 0; k < n; k++) {
        double share = weights[k] / m->weight;
        for (uint32_t j = 0; j < padded; j++)
            moved[j] += share * d[(size_t)k * padded + j];
    }
    for (uint32_t j = 0; j < padded; j++)
        mean[j] += moved[j];
    if (n == 1) {
        weights[0] *= before / m->weight;
        return before > 0;
    }
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t j = 0; j < padded; j++)
            d[(size_t)k * padded + j] -= moved[j];
    weights[n] = before;
    return n + (before > 0);
}

CLONES
static deviations weigh(const double *restrict d, const double *weights, uint32_t n,
                        uint32_t padded) {
    double *restrict out = (double *)d + (TUSK_ROWS_AT_ONCE + 1) * (size_t)padded;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t j = 0; j < padded; j++)
            out[(size_t)k * padded + j] = weights[k] * d[(size_t)k * padded + j];
    return (deviations){d, out, n, padded};
}

/* The features and the label as doubles in `out`; whether all are finite. */
CLONES
static bool read_row(const tusk_moment_row *row, double *restrict out, uint32_t padded) {
    if (row->doubles)
        memcpy(out, row->doubles, row->n * sizeof *out);
    else
        for (uint64_t i = 0; i < row->n; i++)
            out[i] = (double)row->floats[i];
    out[row->n] = row->label;
    for (uint64_t i = row->n + 1; i < padded; i++)
        out[i] = 0;
    uint64_t infinite = 0;
    for (uint32_t i = 0; i < padded; i++) {
        uint64_t bits;
        memcpy(&bits, out + i, sizeof bits);
        infinite |= (bits & EXPONENT) == EXPONENT;
    }
    return !infinite && row->weight >= 0 && isfinite(row->weight);
}

CLONES
static void subtract(double *restrict from, const double *restrict what, uint32_t n) {
    for (uint32_t j = 0; j < n; j++)
        from[j] -= what[j];
}

void tusk_moments_add(tusk_moments *m, const tusk_moment_row *rows, uint32_t n, double *room) {
    uint32_t padded = tusk_padded(m->width), given = 0;
    double weights[TUSK_ROWS_AT_ONCE + 1];
    for (uint32_t i = 0; i < n; i++) {
        if (!read_row(&rows[i], room + (size_t)given * padded, padded))
            m->n_invalid++;
        else if (rows[i].weight == 0)
            m->n_skipped++;
        else
            weights[given++] = rows[i].weight;
    }
    if (!given)
        return;
    double *products = tusk_products(m);
    terms former = {m->n_rows ? products : NULL, NULL};
    if (!m->n_rows)
        memcpy(tusk_means(m), room, padded * sizeof *room);
    for (uint32_t k = 0; k < given; k++)
        subtract(room + (size_t)k * padded, tusk_means(m), padded);
    m->n_rows += given;
    deviations d = weigh(room, weights, move_means(m, room, weights, given), padded);
    add_products(products, former, &d, m->width);
}

/* Makes the moments those of no rows, of the same width. */
static void clear(tusk_moments *m) {
    m->n_rows = m->n_removed = 0;
    m->weight = 0;
    memset(tusk_peaks(m), 0, m->width * sizeof *m->numbers);
}

/* Whether the sums of squares are all of a size that keeps their digits. */
static bool keeps_digits(const tusk_moments *m) {
    const double *peak = tusk_peaks(m), *products = tusk_products(m);
    for (uint32_t i = 0; i < m->width; i++)
        if (!(products[tusk_product_row(i) + i] >= LEAST_SHARE * peak[i]))
            return false;
    return true;
}

bool tusk_moments_remove(tusk_moments *m, const tusk_moment_row *row, double *room) {
    double *mean = tusk_means(m), *peak = tusk_peaks(m), *products = tusk_products(m);
    uint32_t padded = tusk_padded(m->width);
    if (!read_row(row, room, padded)) {
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
    for (uint32_t i = 0; i < m->width; i++)
        peak[i] = fmax(peak[i], products[tusk_product_row(i) + i]);
    m->n_rows--;
    m->n_removed++;
    m->weight -= row->weight;
    double share = row->weight / m->weight, weight = -(share * (m->weight + row->weight));
    subtract(room, mean, padded);
    for (uint32_t i = 0; i < padded; i++)
        mean[i] -= share * room[i];
    deviations d = weigh(room, &weight, 1, padded);
    add_products(products, (terms){products, NULL}, &d, m->width);
    return m->n_removed <= 2 * m->n_rows + 32 && m->weight > LEAST_SHARE * row->weight &&
           keeps_digits(m);
}

/* Adds moments of 1 to TUSK_ROWS_AT_ONCE others, which have rows. */
static void merge(tusk_moments *m, const tusk_moments *const *others, uint32_t n, double *room) {
    uint32_t padded = tusk_padded(m->width);
    size_t length = tusk_product_row(m->width);
    double *products = tusk_products(m), weights[TUSK_ROWS_AT_ONCE + 1];
    terms former = {m->n_rows ? products : NULL, tusk_products(others[0])};
    if (!m->n_rows)
        memcpy(tusk_means(m), tusk_means(others[0]), padded * sizeof *room);
    for (uint32_t k = 0; k < n; k++) {
        memcpy(room + (size_t)k * padded, tusk_means(others[k]), padded * sizeof *room);
        subtract(room + (size_t)k * padded, tusk_means(m), padded);
        weights[k] = others[k]->weight;
        m->n_rows += others[k]->n_rows;
        m->n_removed += others[k]->n_removed;
    }
    deviations d = weigh(room, weights, move_means(m, room, weights, n), padded);
    add_products(products, former, &d, m->width);
    for (uint32_t k = 1; k < n; k++)
        add_all(products, tusk_products(others[k]), length);
}

void tusk_moments_merge(tusk_moments *m, const tusk_moments *const *others, uint64_t n,
                        double *room) {
    const tusk_moments *some[TUSK_ROWS_AT_ONCE];
    uint32_t held = 0;
    for (uint64_t i = 0; i < n; i++) {
        m->n_skipped += others[i]->n_skipped;
        m->n_invalid += others[i]->n_invalid;
        if (others[i]->n_rows)
            some[held++] = others[i];
        if (held && (held == TUSK_ROWS_AT_ONCE || i + 1 == n)) {
            merge(m, some, held, room);
            held = 0;
        }
    }
}
