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

/* Sums of products of features i .. i + LANES - 1 with those of `blocks` vectors from j on, which
 * fit registers. Those of the first `rows` features are written. */
static inline __attribute__((always_inline)) void add_tile(double *out, terms of,
                                                           const deviations *d, uint32_t i,
                                                           uint32_t j, uint32_t rows,
                                                           const int blocks) {
    lanes sums[LANES][2], v, term;
#pragma GCC unroll 4
    for (int r = 0; r < LANES; r++)
        sums[r][0] = sums[r][1] = (lanes){0};
    for (uint32_t k = 0; k < d->n; k++) {
        const double *left = d->weighted + (size_t)k * d->padded + i;
        const double *right = d->plain + (size_t)k * d->padded + j;
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++) {
            memcpy(&v, right + b * LANES, sizeof v);
#pragma GCC unroll 4
            for (int r = 0; r < LANES; r++)
                sums[r][b] += left[r] * v;
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < LANES; r++) {
        if (r >= (int)rows)
            break;
#pragma GCC unroll 2
        for (int b = 0; b < blocks; b++) {
            size_t at = (size_t)r * (i + LANES) + j + (size_t)b * LANES;
            v = sums[r][b];
            if (of.first) {
                memcpy(&term, of.first + at, sizeof term);
                v += term;
            }
            if (of.second) {
                memcpy(&term, of.second + at, sizeof term);
                v += term;
            }
            memcpy(out + at, &v, sizeof v);
        }
    }
}

/* out = the terms, of which there is a first, + the weighted products of one row's deviations. */
static inline __attribute__((always_inline)) void
add_product(double *out, terms of, const deviations *d, uint32_t width) {
    for (uint32_t i = 0; i < width; i++) {
        double by = d->weighted[i];
        for (uint32_t j = 0; j <= i; j += LANES) {
            lanes sum, term;
            memcpy(&sum, d->plain + j, sizeof sum);
            memcpy(&term, of.first, sizeof term);
            sum = by * sum + term;
            if (of.second) {
                memcpy(&term, of.second, sizeof term);
                sum += term;
                of.second += LANES;
            }
            memcpy(out, &sum, sizeof sum);
            out += LANES, of.first += LANES;
        }
    }
}

/* out = the terms + the sums of weighted products of deviations; `out` may be a term. */
CLONES
static void add_products(double *out, terms of, const deviations *d, uint32_t width) {
    if (d->n == 1 && of.first) {
        add_product(out, of, d, width);
        return;
    }
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

/* Moves the means to those of the moments' rows and n further ones: d has what these have in
 * place of a row each, and behind them room for one more, and for as many products with weights.
 * Makes them deviations from the new means, and appends that of the former means. */
CLONES
static deviations move_means(tusk_moments *m, double *d, double *weights, uint32_t n) {
    uint32_t padded = tusk_padded(m->width), all = n;
    double *mean = tusk_means(m), *weighted = d + (TUSK_ROWS_AT_ONCE + 1) * (size_t)padded;
    double before = m->weight, shares[TUSK_ROWS_AT_ONCE];
    for (uint32_t k = 0; k < n; k++)
        m->weight += weights[k];
    for (uint32_t k = 0; k < n; k++)
        shares[k] = weights[k] / m->weight;
    bool lone = n == 1; /* its deviation and that of the former means make one product */
    if (lone)
        weights[0] *= before / m->weight;
    else if (before > 0)
        weights[all++] = before;
    for (uint32_t j = 0; j < padded; j += LANES) {
        lanes centre, moved = {0}, x;
        memcpy(&centre, mean + j, sizeof centre);
        for (uint32_t k = 0; k < n; k++) {
            memcpy(&x, d + (size_t)k * padded + j, sizeof x);
            moved += shares[k] * (x - centre);
        }
        lanes from = lone ? centre : centre + moved;
        for (uint32_t k = 0; k < all; k++) {
            double *at = d + (size_t)k * padded + j;
            memcpy(&x, k < n ? at : mean + j, sizeof x);
            x -= from;
            memcpy(at, &x, sizeof x);
            x *= weights[k];
            memcpy(weighted + (size_t)k * padded + j, &x, sizeof x);
        }
        centre += moved;
        memcpy(mean + j, &centre, sizeof centre);
    }
    return (deviations){d, weighted, lone && !(before > 0) ? 0 : all, padded};
}

static inline bool is_finite(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & EXPONENT) != EXPONENT;
}

/* The features and the label as doubles in `out`; whether all are finite. */
static inline bool read_row(const tusk_moment_row *row, double *restrict out, uint32_t padded) {
    uint64_t infinite = !(row->weight >= 0 && is_finite(row->weight) && is_finite(row->label));
    for (uint64_t i = 0; row->doubles && i < row->n; i++) {
        out[i] = row->doubles[i];
        infinite |= !is_finite(out[i]);
    }
    for (uint64_t i = 0; row->floats && i < row->n; i++) {
        out[i] = (double)row->floats[i];
        infinite |= !is_finite(out[i]);
    }
    out[row->n] = row->label;
    for (uint64_t i = row->n + 1; i < padded; i++)
        out[i] = 0;
    return !infinite;
}

/* Reads the rows that count into `room`, and notes the others. Returns how many count. */
CLONES
static uint32_t read_rows(tusk_moments *m, const tusk_moment_row *rows, uint32_t n, double *room,
                          double *weights) {
    uint32_t padded = tusk_padded(m->width), given = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!read_row(&rows[i], room + (size_t)given * padded, padded))
            m->n_invalid++;
        else if (rows[i].weight == 0)
            m->n_skipped++;
        else
            weights[given++] = rows[i].weight;
    }
    return given;
}

void tusk_moments_add(tusk_moments *m, const tusk_moment_row *rows, uint32_t n, double *room) {
    double weights[TUSK_ROWS_AT_ONCE + 1], *products = tusk_products(m);
    uint32_t given = read_rows(m, rows, n, room, weights);
    if (!given)
        return;
    terms former = {m->n_rows ? products : NULL, NULL};
    if (!m->n_rows)
        memcpy(tusk_means(m), room, tusk_padded(m->width) * sizeof *room);
    m->n_rows += given;
    deviations d = move_means(m, room, weights, given);
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
    double *weighted = room + padded;
    for (uint32_t i = 0; i < padded; i++) {
        room[i] -= mean[i];
        mean[i] -= share * room[i];
        weighted[i] = weight * room[i];
    }
    deviations d = {room, weighted, 1, padded};
    add_products(products, (terms){products, NULL}, &d, m->width);
    return m->n_removed <= 2 * m->n_rows + 32 && m->weight > LEAST_SHARE * row->weight &&
           keeps_digits(m);
}

/* Adds moments of 1 to TUSK_ROWS_AT_ONCE others, which have rows. */
static void merge(tusk_moments *m, const tusk_moments *const *others, uint32_t n, double *room) {
    uint32_t padded = tusk_padded(m->width);
    size_t length = tusk_product_row(m->width);
    if (n == 1 && !m->n_rows) {
        m->n_rows = others[0]->n_rows;
        m->n_removed = others[0]->n_removed;
        m->weight = others[0]->weight;
        memcpy(m->numbers, others[0]->numbers, (padded + length) * sizeof *room);
        return;
    }
    double *products = tusk_products(m), weights[TUSK_ROWS_AT_ONCE + 1];
    terms former = {m->n_rows ? products : NULL, tusk_products(others[0])};
    if (!m->n_rows)
        memcpy(tusk_means(m), tusk_means(others[0]), padded * sizeof *room);
    for (uint32_t k = 0; k < n; k++) {
        memcpy(room + (size_t)k * padded, tusk_means(others[k]), padded * sizeof *room);
        weights[k] = others[k]->weight;
        m->n_rows += others[k]->n_rows;
        m->n_removed += others[k]->n_removed;
    }
    deviations d = move_means(m, room, weights, n);
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
