/* Predictions of models with more than two classes: the likeliest class, and the probabilities of
 * all of them. A margin m_k = w_k.x + b_k per class; probabilities are exp(m_k) / sum_j exp(m_j).
 */
#include <math.h>
#include <stdio.h>

#include "../explaining/contributions.h"
#include "interval.h"
#include "kinds.h"
#include "margins.h"

#define ROWS 64 /* rows whose margins are kept at once */

static const tusk_weight *class_at(const tusk_scorer *s, uint64_t k) {
    return s->coef + k * s->n_coef;
}

static bool check_width(const tusk_scorer *s, uint64_t d, char *sentence) {
    if (d + 1 == s->n_coef)
        return true;
    snprintf(sentence, TUSK_SENTENCE, "the model has %llu features, row has %llu",
             (unsigned long long)(s->n_coef - 1), (unsigned long long)d);
    return false;
}

/* Keeps the largest margins of n rows, and the indices of their classes from 1 on. A NaN margin
 * makes the row's index NaN. */
static void keep_best(double *best, double *place, const double *m, uint64_t n, uint64_t k) {
    for (uint64_t i = 0; i < n; i++) {
        if (m[i] != m[i])
            place[i] = best[i] = m[i];
        else if (m[i] > best[i]) {
            best[i] = m[i];
            place[i] = (double)(k + 1);
        }
    }
}

static void to_labels(const tusk_scorer *s, double *place, uint64_t n) {
    if (s->places)
        return;
    for (uint64_t i = 0; i < n; i++)
        if (place[i] == place[i])
            place[i] = s->labels[(uint64_t)place[i] - 1];
}

/* The index of the largest of the margins of one row, from 1 on. */
static void to_best(const tusk_scorer *s, const double *m, double *out) {
    double best = -INFINITY;
    *out = 1;
    for (uint64_t k = 0; k < s->n_classes; k++)
        keep_best(&best, out, m + k, 1, k);
    to_labels(s, out, 1);
}

/* Whether the margins of a row are computed all at once, by `class_margins`. */
static bool has_own_margins(const tusk_scorer *s) {
    return tusk_kind_of(s->task)->class_margins || s->stored;
}

static bool class_margins(tusk_scorer *s, const tusk_sparse_row *sparse, const void *x, bool f64,
                          uint64_t d, double *m, char *sentence) {
    if (s->stored)
        return tusk_stored_class_margins(s, sparse, x, f64, d, m, sentence);
    const tusk_model_kind *kind = tusk_kind_of(s->task);
    return sparse ? kind->sparse_class_margins(s, sparse, f64, m, sentence)
                  : kind->class_margins(s, x, f64, d, m, sentence);
}

static bool best_of_rows(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                         double *out, char *sentence) {
    const char *row = x;
    size_t bytes = d * (f64 ? sizeof(double) : sizeof(float));
    double m[TUSK_MOST_OUTPUTS];
    for (uint64_t i = 0; i < n; i++, row += bytes) {
        if (!class_margins(s, NULL, row, f64, d, m, sentence))
            return false;
        to_best(s, m, out + i);
    }
    return true;
}

bool tusk_best_classes(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                       double *out, char *sentence) {
    if (has_own_margins(s))
        return best_of_rows(s, x, f64, d, n, out, sentence);
    if (!check_width(s, d, sentence))
        return false;
    const char *row = x;
    size_t bytes = d * (f64 ? sizeof(double) : sizeof(float));
    double best[ROWS], m[ROWS];
    for (uint64_t at = 0; at < n; at += ROWS, row += ROWS * bytes) {
        uint64_t some = n - at < ROWS ? n - at : ROWS;
        for (uint64_t i = 0; i < some; i++) {
            best[i] = -INFINITY;
            out[at + i] = 1;
        }
        for (uint64_t k = 0; k < s->n_classes; k++) {
            const tusk_weight *w = class_at(s, k);
            tusk_dot_rows(row, f64, d, some, w + 1, w[0], m);
            keep_best(best, out + at, m, some, k);
        }
        to_labels(s, out + at, some);
    }
    return true;
}

/* The margin of one class for a sparse row; ids that the model has not seen weigh 0. */
static double sparse_margin(const tusk_weight *w, uint64_t n_coef, const tusk_sparse_row *row,
                            bool f64) {
    double sum = w[0];
    for (uint64_t i = 0; i < row->n_ids; i++) {
        uint64_t id = (uint64_t)tusk_id_at(row, i);
        double value = f64 ? ((const double *)row->values)[i] : ((const float *)row->values)[i];
        if (id + 1 < n_coef)
            sum += value * w[id + 1];
    }
    return sum;
}

bool tusk_best_class(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                     char *sentence) {
    double m[TUSK_MOST_OUTPUTS], best = -INFINITY;
    if (has_own_margins(s)) {
        if (!class_margins(s, row, NULL, f64, 0, m, sentence))
            return false;
        to_best(s, m, out);
        return true;
    }
    if (!tusk_check_ids(row, sentence))
        return false;
    *out = 1;
    for (uint64_t k = 0; k < s->n_classes; k++) {
        double one = sparse_margin(class_at(s, k), s->n_coef, row, f64);
        keep_best(&best, out, &one, 1, k);
    }
    to_labels(s, out, 1);
    return true;
}

void tusk_to_shares(double *m, uint64_t n) {
    double most = m[0], sum = 0;
    for (uint64_t k = 1; k < n; k++)
        most = m[k] > most ? m[k] : most;
    for (uint64_t k = 0; k < n; k++)
        sum += m[k] = exp(m[k] - most);
    for (uint64_t k = 0; k < n; k++)
        m[k] /= sum;
}

/* Shares of classes by different trees need not add up to 1. */
static void scale_shares(double *m, uint64_t n) {
    double sum = 0;
    for (uint64_t k = 0; k < n; k++)
        sum += m[k] = m[k] < 0 ? 0 : m[k];
    for (uint64_t k = 0; k < n; k++)
        m[k] = sum > 0 ? m[k] / sum : m[k] != m[k] ? m[k] : 1 / (double)n;
}

void tusk_shares_of_margin(const tusk_scorer *s, double margin, double *out) {
    if (s->cuts) {
        tusk_shares_of_levels(s, margin, out);
        return;
    }
    double other = -margin;
    tusk_to_probabilities(s, &margin, 1);
    if (tusk_is_calibrated(s))
        other = 1 - margin;
    else if (s->response == TUSK_CLOGLOG_SHARE) /* not symmetric */
        other = exp(-exp(-other));
    else
        tusk_to_probabilities(s, &other, 1);
    out[0] = s->n_classes == 2 ? other : margin > other ? margin : other;
    if (s->n_classes == 2)
        out[1] = margin;
}

static bool of_margin(tusk_scorer *s, const tusk_sparse_row *sparse, const void *x, bool f64,
                      uint64_t d, double *out, char *sentence) {
    double m;
    if (!(sparse ? tusk_sparse_margin(s, sparse, f64, &m, sentence)
                 : tusk_margins(s, x, f64, d, 1, &m, sentence)))
        return false;
    tusk_shares_of_margin(s, m, out);
    return true;
}

bool tusk_probabilities(tusk_scorer *s, const tusk_sparse_row *sparse, const void *x, bool f64,
                        uint64_t d, double *out, char *sentence) {
    if (sparse && !tusk_check_pairs(sparse, sentence))
        return false;
    const tusk_model_kind *kind = tusk_kind_of(s->task);
    if (kind->shares && s->labels)
        return sparse ? kind->sparse_shares(s, sparse, f64, out, sentence)
                      : kind->shares(s, x, f64, d, out, sentence);
    if (!s->labels || s->cuts)
        return of_margin(s, sparse, x, f64, d, out, sentence);
    if (has_own_margins(s)) {
        if (!class_margins(s, sparse, x, f64, d, out, sentence))
            return false;
        if (s->response == TUSK_SHARES)
            scale_shares(out, s->n_classes);
        else
            tusk_to_shares(out, s->n_classes);
        return true;
    }
    if (sparse ? !tusk_check_ids(sparse, sentence) : !check_width(s, d, sentence))
        return false;
    for (uint64_t k = 0; k < s->n_classes; k++) {
        const tusk_weight *w = class_at(s, k);
        if (sparse)
            out[k] = sparse_margin(w, s->n_coef, sparse, f64);
        else
            tusk_dot_rows(x, f64, d, 1, w + 1, w[0], out + k);
    }
    tusk_to_shares(out, s->n_classes);
    return true;
}

bool tusk_list(tusk_scorer *s, const tusk_sparse_row *sparse, const void *x, bool f64, uint64_t d,
               double *out, char *sentence) {
    return s->explains       ? tusk_explain_row(s, sparse, x, f64, d, out, sentence)
           : s->has_interval ? tusk_interval(s, sparse, x, f64, d, out, sentence)
                             : tusk_probabilities(s, sparse, x, f64, d, out, sentence);
}
