/* Margins of factorization machines of second order (Rendle, Factorization Machines, ICDM
 * 2010): b + sum_i w_i x_i + sum_i <v_i x_i, sum_{j < i} v_j x_j>. The sum over pairs is not
 * computed as half of a difference of squares: if values are large relative to their deviation,
 * only rounding of the squares would be left. The coefficients of a machine are d, the number
 * of its features; k, the length of their vectors; and then for each feature its weight and its
 * vector. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../kvstore/mapped/clones.h"
#include "../models/entries.h"
#include "../models/margins.h"

enum { FEATURES, RANK, HEAD };
#define MOST_FEATURES 2147483648.0
#define MOST_RANK 256

static bool is_count(double x, double most) {
    return x >= 1 && x <= most && x == (double)(uint64_t)x;
}

bool tusk_check_machine(const tusk_weight *coef, uint64_t n, char *sentence) {
    if (n >= HEAD && is_count(coef[FEATURES], MOST_FEATURES) && is_count(coef[RANK], MOST_RANK) &&
        n - HEAD == (uint64_t)coef[FEATURES] * ((uint64_t)coef[RANK] + 1))
        return true;
    snprintf(sentence, TUSK_SENTENCE,
             "the coefficients of the model are not the weights and vectors of its features");
    return false;
}

/* The sums over the entries of a row so far. */
struct sums {
    double linear;
    double of[MOST_RANK], pairs[MOST_RANK];
};

static void begin(struct sums *s, double intercept, uint64_t rank) {
    s->linear = intercept;
    memset(s->of, 0, rank * sizeof *s->of);
    memset(s->pairs, 0, rank * sizeof *s->pairs);
}

/* Adds an entry; `one` has its weight and its vector. */
static inline void add(struct sums *s, const tusk_weight *one, uint64_t rank, double x) {
    s->linear += x * one[0];
    for (uint64_t k = 0; k < rank; k++) {
        double part = x * one[1 + k];
        s->pairs[k] += part * s->of[k];
        s->of[k] += part;
    }
}

static double margin_of(const struct sums *s, uint64_t rank) {
    double pairs = 0;
    for (uint64_t k = 0; k < rank; k++)
        pairs += s->pairs[k];
    return s->linear + pairs;
}

CLONES static void dense_margins(const tusk_scorer *s, const void *x, bool f64, uint64_t n,
                                 double *out) {
    uint64_t d = (uint64_t)s->coef[FEATURES], rank = (uint64_t)s->coef[RANK];
    struct sums sums;
    for (uint64_t i = 0; i < n; i++) {
        begin(&sums, s->intercept, rank);
        for (uint64_t j = 0; j < d; j++) {
            double value = tusk_number_at(x, f64, i * d + j);
            if (value != 0)
                add(&sums, s->coef + HEAD + j * (rank + 1), rank, value);
        }
        out[i] = margin_of(&sums, rank);
    }
}

bool tusk_machine_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                          double *out, char *sentence) {
    if (d != (uint64_t)s->coef[FEATURES]) {
        snprintf(sentence, TUSK_SENTENCE, "the model has %llu features, row has %llu",
                 (unsigned long long)s->coef[FEATURES], (unsigned long long)d);
        return false;
    }
    dense_margins(s, x, f64, n, out);
    return true;
}

CLONES static double margin_of_rising(const tusk_scorer *s, const tusk_sparse_row *row, bool f64) {
    uint64_t d = (uint64_t)s->coef[FEATURES], rank = (uint64_t)s->coef[RANK];
    struct sums sums;
    begin(&sums, s->intercept, rank);
    for (uint64_t i = 0; i < row->n_ids; i++) {
        uint64_t id = (uint64_t)tusk_id_at(row, i);
        if (id < d)
            add(&sums, s->coef + HEAD + id * (rank + 1), rank,
                tusk_number_at(row->values, f64, i));
    }
    return margin_of(&sums, rank);
}

static double margin_of_entries(const tusk_scorer *s, const tusk_entry *entries, uint64_t n) {
    uint64_t d = (uint64_t)s->coef[FEATURES], rank = (uint64_t)s->coef[RANK];
    struct sums sums;
    begin(&sums, s->intercept, rank);
    for (uint64_t i = 0; i < n && (uint64_t)entries[i].id < d; i++)
        add(&sums, s->coef + HEAD + (uint64_t)entries[i].id * (rank + 1), rank, entries[i].x);
    return margin_of(&sums, rank);
}

bool tusk_machine_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                                char *sentence) {
    if (!tusk_check_ids(row, sentence))
        return false;
    if (tusk_is_rising(row)) {
        *out = margin_of_rising(s, row, f64);
        return true;
    }
    tusk_entry few[TUSK_FEW_ENTRIES];
    uint64_t n = 0;
    tusk_entry *entries = tusk_entries_of(row, f64, few, &n, sentence);
    if (!entries)
        return false;
    *out = margin_of_entries(s, entries, n);
    if (entries != few)
        free(entries);
    return true;
}

uint64_t tusk_machine_features(const tusk_scorer *s) {
    return (uint64_t)s->coef[FEATURES];
}

/* x_j (w_j + <v_j, sum of the other x_i v_i> / 2): the term of a pair is shared by its features.
 */
void tusk_machine_contributions(const tusk_scorer *s, const double *x, double *out) {
    uint64_t d = (uint64_t)s->coef[FEATURES], rank = (uint64_t)s->coef[RANK];
    double sum[MOST_RANK] = {0};
    const tusk_weight *first = s->coef + HEAD;
    for (uint64_t j = 0; j < d; j++)
        for (uint64_t k = 0; x[j] != 0 && k < rank; k++)
            sum[k] += x[j] * first[j * (rank + 1) + 1 + k];
    out[0] = s->intercept;
    for (uint64_t j = 0; j < d; j++) {
        const tusk_weight *one = first + j * (rank + 1);
        double others = 0;
        for (uint64_t k = 0; x[j] != 0 && k < rank; k++)
            others += one[1 + k] * (sum[k] - x[j] * one[1 + k]);
        out[1 + j] = x[j] * (one[0] + others / 2);
    }
}
