/* The contributions of features to a linear margin: w_j x_j, and the intercept is the base value.
 * To that of a factorization machine each pair of features adds half of its term to both. They are
 * Shapley values of the game in which a missing feature is 0. Trees are in shapley.c, nets in
 * nets/gradients.c. */
#include "contributions.h"

#include <stdio.h>
#include <string.h>

#include "../models/margins.h"

/* Whether each of several classes has weights of its own, or trees. */
static bool has_blocks(const tusk_scorer *s) {
    return s->labels && !s->cuts;
}

static uint64_t features_of(const tusk_scorer *s) {
    if (!s->n_coef)
        return 0;
    if (s->task == TUSK_BOOSTED)
        return tusk_tree_features(s);
    if (s->task == TUSK_MACHINE)
        return tusk_machine_features(s);
    if (s->task == TUSK_NET)
        return tusk_net_features(s);
    return has_blocks(s) ? s->n_coef - 1 : s->n_coef;
}

static uint64_t margins_of(const tusk_scorer *s) {
    return has_blocks(s) ? s->n_classes : 1;
}

bool tusk_size_explanations(tusk_scorer *s, char *sentence) {
    uint64_t d = features_of(s), margins = margins_of(s);
    if (d < TUSK_MOST_EXPLAINED && (d + 1) * (margins + 1) <= TUSK_MOST_EXPLAINED) {
        s->list_size = 1 + d + margins * (d + 1);
        return true;
    }
    snprintf(sentence, TUSK_SENTENCE,
             "the model has %llu features and %llu margins, which make %llu numbers to explain, "
             "expected at most %llu",
             (unsigned long long)d, (unsigned long long)margins,
             (unsigned long long)((d + 1) * (margins + 1)),
             (unsigned long long)TUSK_MOST_EXPLAINED);
    return false;
}

static bool write_values(const tusk_sparse_row *sparse, const void *x, bool f64, uint64_t d,
                         double *out, char *sentence) {
    if (sparse)
        return tusk_spread(sparse, f64, d, out, sentence);
    for (uint64_t j = 0; j < d; j++)
        out[j] = f64 ? ((const tusk_weight *)x)[j] : (double)((const float *)x)[j];
    return true;
}

static bool check_row(const tusk_sparse_row *sparse, uint64_t d, uint64_t width, char *sentence) {
    if (sparse)
        return tusk_check_pairs(sparse, sentence);
    if (!width || d == width)
        return true;
    snprintf(sentence, TUSK_SENTENCE, "the model has %llu features, row has %llu",
             (unsigned long long)width, (unsigned long long)d);
    return false;
}

/* For one margin with the weights w: its base value and contributions. */
static void explain_margin(const tusk_weight *w, double base, const double *x, uint64_t d,
                           double *out) {
    out[0] = base;
    for (uint64_t j = 0; j < d; j++)
        out[1 + j] = w[j] * x[j];
}

bool tusk_explain_row(const tusk_scorer *s, const tusk_sparse_row *sparse, const void *x, bool f64,
                      uint64_t d, double *out, char *sentence) {
    uint64_t width = features_of(s), margins = margins_of(s);
    double *values = out + 1, *told = values + width;
    out[0] = (double)margins;
    if (!check_row(sparse, d, width, sentence) ||
        !write_values(sparse, x, f64, width, values, sentence))
        return false;
    if (s->task == TUSK_BOOSTED && s->n_coef)
        return tusk_tree_contributions(s, values, width, told, sentence);
    if (s->task == TUSK_MACHINE && s->n_coef) {
        tusk_machine_contributions(s, values, told);
        return true;
    }
    if (s->task == TUSK_NET && s->n_coef)
        return tusk_net_contributions(s, values, told, sentence);
    for (uint64_t k = 0; k < margins; k++, told += width + 1) {
        const tusk_weight *w = s->coef + k * s->n_coef;
        if (has_blocks(s) && s->n_coef)
            explain_margin(w + 1, w[0], values, width, told);
        else
            explain_margin(w, s->intercept, values, width, told);
    }
    return true;
}
