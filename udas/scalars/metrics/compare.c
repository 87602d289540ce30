/* The paired comparison of two predictions: Student's t of the differences of rows. */
#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../student.h"

/* Metrics that are means over rows. */
static const struct {
    const char *name;
    enum tusk_metric_kind kind;
} MEANS[] = {{"mse", TUSK_RMSE},
             {"mae", TUSK_MAE},
             {"mape", TUSK_MAPE},
             {"log_loss", TUSK_LOG_LOSS},
             {"brier", TUSK_BRIER},
             {"accuracy", TUSK_ACCURACY},
             {"poisson_deviance", TUSK_POISSON_DEVIANCE},
             {"gamma_deviance", TUSK_GAMMA_DEVIANCE}};
#define N_MEANS ((int)(sizeof MEANS / sizeof *MEANS))

static const char *name_of(enum tusk_metric_kind kind) {
    for (int k = 0; k < N_MEANS; k++)
        if (MEANS[k].kind == kind)
            return MEANS[k].name;
    return "";
}

static bool same_metric(tusk_comparison *c, enum tusk_metric_kind kind, char *sentence) {
    if (!c->begun) {
        c->begun = true;
        c->kind = kind;
    }
    if (c->kind == kind)
        return true;
    snprintf(sentence, TUSK_SENTENCE,
             "metric is both '%s' and '%s', expected one for all rows of a group",
             name_of(c->kind), name_of(kind));
    return false;
}

bool tusk_compare_by(tusk_comparison *c, const char *metric, size_t length, char *sentence) {
    for (int k = 0; k < N_MEANS; k++)
        if (strlen(MEANS[k].name) == length && !memcmp(MEANS[k].name, metric, length))
            return same_metric(c, MEANS[k].kind, sentence);
    snprintf(sentence, TUSK_SENTENCE,
             "metric is '%.*s', expected a mean over rows: 'mse', 'mae', 'mape', 'log_loss', "
             "'brier', 'accuracy', 'poisson_deviance' or 'gamma_deviance'",
             (int)fmin((double)length, 60), metric);
    return false;
}

bool tusk_compares_classes(const tusk_comparison *c) {
    return c->kind == TUSK_ACCURACY;
}

bool tusk_compare_take(tusk_comparison *c, double y, double a, double b, double weight,
                       char *sentence) {
    const tusk_metric *m = tusk_metric_of(c->kind);
    tusk_judged row = {.y = y, .p = a, .weight = weight};
    double loss_a = 0, loss_b = 0;
    if (!tusk_score_add(&c->a, m, &row, &loss_a, sentence))
        return false;
    row.p = b;
    if (!tusk_score_add(&c->b, m, &row, &loss_b, sentence))
        return false;
    if (weight == 0)
        return true;
    c->n++;
    c->difference.n += weight;
    tusk_sum_add(&c->difference.error, weight * (loss_a - loss_b));
    tusk_spread_add(&c->difference, loss_a - loss_b, weight);
    return true;
}

bool tusk_compare_merge(tusk_comparison *target, const tusk_comparison *source, char *sentence) {
    if (source->begun && !same_metric(target, source->kind, sentence))
        return false;
    target->n += source->n;
    return tusk_score_merge(&target->a, &source->a, sentence) &&
           tusk_score_merge(&target->b, &source->b, sentence) &&
           tusk_score_merge(&target->difference, &source->difference, sentence);
}

/* A row of weight 2 is two rows, so that the degrees of freedom are the sum of weights - 1. */
void tusk_compare_give(const tusk_comparison *c, double *out) {
    const double n = c->difference.n, freedom = n - 1;
    const double mean = tusk_sum_total(&c->difference.error) / n;
    const double std_err = freedom > 0 ? sqrt(c->difference.spread / freedom / n) : NAN;
    const double reach = tusk_t_of_interval(freedom) * std_err;
    out[TUSK_MEAN_A] = tusk_sum_total(&c->a.error) / n;
    out[TUSK_MEAN_B] = tusk_sum_total(&c->b.error) / n;
    out[TUSK_DIFFERENCE] = mean;
    out[TUSK_DIFFERENCE_STD_ERR] = std_err;
    out[TUSK_DIFFERENCE_LOWER] = mean - reach;
    out[TUSK_DIFFERENCE_UPPER] = mean + reach;
    out[TUSK_DIFFERENCE_P] = tusk_two_sided_p(mean / std_err, freedom);
}
