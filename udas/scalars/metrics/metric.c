/* The arithmetic of the metrics that are sums over rows. */
#include "metric.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* D. H. D. West, Updating mean and variance estimates, 1979; with weights of 1 it is Welford's.
 * It subtracts no large sums, and a constant label leaves spread at exactly 0. Counting from
 * the first label preserves digits if the mean is large compared with the spread. */
void tusk_spread_add(tusk_score *s, double y, double weight) {
    if (!s->begun)
        s->origin = y;
    s->begun = true;
    double distance = (y - s->origin) - s->mean;
    s->mean += weight * distance / s->n;
    s->spread += weight * distance * ((y - s->origin) - s->mean);
}

/* T. F. Chan, G. H. Golub, R. J. LeVeque, Updating formulae and a pairwise algorithm, 1979. n
 * already counts the rows of both. */
static void spread_merge(tusk_score *s, const tusk_score *other) {
    if (!s->begun)
        s->origin = other->origin;
    s->begun |= other->begun;
    double weight = other->n / s->n;
    double distance = (other->origin - s->origin) + (other->mean - s->mean);
    s->mean += distance * weight;
    s->spread += other->spread + distance * distance * weight * (s->n - other->n);
}

static void merge(tusk_score *target, const tusk_score *source) {
    target->n += source->n;
    tusk_sum_merge(&target->error, &source->error);
    spread_merge(target, source);
    target->zero |= source->zero;
    target->minus |= source->minus;
}

bool tusk_good_weight(double weight, char *sentence) {
    if (weight >= 0 && weight <= TUSK_MOST_WEIGHT)
        return true;
    snprintf(sentence, TUSK_SENTENCE, "weight is %g, expected a finite number of at least 0%s",
             weight, weight > 0 && isfinite(weight) ? " and at most 1e+290" : "");
    return false;
}

/* --- the metrics of single rows --- */

static bool one_coding(const tusk_score *s, char *sentence) {
    if (!s->zero || !s->minus)
        return true;
    snprintf(sentence, TUSK_SENTENCE, TUSK_TWO_CODINGS);
    return false;
}

/* For metrics of a two-class label and a probability. */
static bool take_chance(tusk_score *s, const tusk_judged *row, char *sentence) {
    if (row->y != 1 && row->y != 0 && row->y != -1) {
        snprintf(sentence, TUSK_SENTENCE, "label is %g, " TUSK_CODING, row->y);
        return false;
    }
    if (!(row->p >= 0 && row->p <= 1)) {
        snprintf(sentence, TUSK_SENTENCE, "p is %g, expected a probability between 0 and 1",
                 row->p);
        return false;
    }
    s->zero |= row->y == 0;
    s->minus |= row->y == -1;
    return one_coding(s, sentence);
}

/* Clips at one limit for both ends, like scikit-learn: the loss of a row is at most 36.04. */
static bool take_log_loss(tusk_score *s, const tusk_judged *row, double *loss, char *sentence) {
    if (!take_chance(s, row, sentence))
        return false;
    double q = row->y > 0 ? row->p : 1 - row->p;
    *loss = -log(fmin(fmax(q, DBL_EPSILON), 1 - DBL_EPSILON));
    return true;
}

/* G. W. Brier, Verification of forecasts expressed in terms of probability, 1950; for two
 * classes half of it, which is that of one class. */
static bool take_brier(tusk_score *s, const tusk_judged *row, double *loss, char *sentence) {
    if (!take_chance(s, row, sentence))
        return false;
    double distance = row->p - (row->y > 0);
    *loss = distance * distance + row->others;
    return true;
}

static bool take_accuracy(tusk_score *s, const tusk_judged *row, double *loss, char *sentence) {
    (void)s;
    *loss = row->y == row->p;
    return tusk_is_class(row->y, "label", sentence);
}

static bool take_rmse(tusk_score *s, const tusk_judged *row, double *loss, char *sentence) {
    (void)s, (void)sentence;
    *loss = (row->y - row->p) * (row->y - row->p);
    return true;
}

static bool take_mae(tusk_score *s, const tusk_judged *row, double *loss, char *sentence) {
    (void)s, (void)sentence;
    *loss = fabs(row->y - row->p);
    return true;
}

static bool take_r2(tusk_score *s, const tusk_judged *row, double *loss, char *sentence) {
    tusk_spread_add(s, row->y, row->weight);
    return take_rmse(s, row, loss, sentence);
}

static bool finite_row(const tusk_judged *row, char *sentence) {
    if (isfinite(row->y) && isfinite(row->p))
        return true;
    bool label = !isfinite(row->y);
    snprintf(sentence, TUSK_SENTENCE, "%s is %g, expected a finite number",
             label ? "label" : "predicted", label ? row->y : row->p);
    return false;
}

/* Divides by at least the machine epsilon, like scikit-learn, so a label of 0 is allowed. */
static bool take_mape(tusk_score *s, const tusk_judged *row, double *loss, char *sentence) {
    (void)s;
    if (!finite_row(row, sentence))
        return false;
    *loss = fabs(row->y - row->p) / fmax(fabs(row->y), DBL_EPSILON);
    return true;
}

/* R. Koenker, G. Bassett, Regression quantiles, 1978. */
static bool take_pinball(tusk_score *s, const tusk_judged *row, double *loss, char *sentence) {
    (void)s;
    double quantile = row->parameter, distance = row->y - row->p;
    if (!finite_row(row, sentence))
        return false;
    if (!(quantile >= 0 && quantile <= 1)) {
        snprintf(sentence, TUSK_SENTENCE, "quantile is %g, expected a number between 0 and 1",
                 quantile);
        return false;
    }
    *loss = fmax(quantile * distance, (quantile - 1) * distance);
    return true;
}

static bool positive(const char *name, double x, bool or_zero, char *sentence) {
    if (x > 0 || (or_zero && x == 0))
        return true;
    snprintf(sentence, TUSK_SENTENCE, "%s is %g, expected a number %s 0", name, x,
             or_zero ? "of at least" : "above");
    return false;
}

/* Both deviances: P. McCullagh, J. A. Nelder, Generalized linear models, 1989, 2.3. A label of 0
 * may be predicted as 0, the limit of small means, which is what exp() of a far margin is. */
static bool take_poisson(tusk_score *s, const tusk_judged *row, double *loss, char *sentence) {
    (void)s;
    double y = row->y, p = row->p;
    if (!finite_row(row, sentence) || !positive("label", y, true, sentence) ||
        !positive("predicted", p, y == 0, sentence))
        return false;
    *loss = 2 * ((y > 0 ? y * log(y / p) : 0) - y + p);
    return true;
}

static bool take_gamma(tusk_score *s, const tusk_judged *row, double *loss, char *sentence) {
    (void)s;
    double y = row->y, p = row->p;
    if (!finite_row(row, sentence) || !positive("label", y, false, sentence) ||
        !positive("predicted", p, false, sentence))
        return false;
    *loss = 2 * (log(p / y) + y / p - 1);
    return true;
}

/* B. Jorgensen, Exponential dispersion models, 1987. */
static bool take_tweedie(tusk_score *s, const tusk_judged *row, double *loss, char *sentence) {
    (void)s;
    double y = row->y, mean = row->p, p = row->parameter;
    if (!(p > 1 && p < 2)) {
        snprintf(sentence, TUSK_SENTENCE, "power is %g, expected a number above 1 and below 2", p);
        return false;
    }
    if (!finite_row(row, sentence) || !positive("label", y, true, sentence) ||
        !positive("predicted", mean, y == 0, sentence))
        return false;
    *loss = 2 * (pow(y, 2 - p) / ((1 - p) * (2 - p)) + pow(mean, 2 - p) / (2 - p) -
                 (y > 0 ? y * pow(mean, 1 - p) / (1 - p) : 0));
    return true;
}

static double give_mean(const tusk_score *s, bool *null) {
    (void)null;
    return tusk_sum_total(&s->error) / s->n;
}

static double give_rmse(const tusk_score *s, bool *null) {
    return sqrt(give_mean(s, null));
}

/* NULL without variance to explain, as of a constant label, and where squares are beyond doubles.
 */
static double give_r2(const tusk_score *s, bool *null) {
    double r2 = 1 - tusk_sum_total(&s->error) / s->spread;
    *null = s->spread == 0 || !isfinite(r2);
    return r2;
}

static const tusk_metric METRICS[TUSK_METRICS] = {
    [TUSK_LOG_LOSS] = {"log_loss", take_log_loss, give_mean, .shares = true},
    [TUSK_ACCURACY] = {"accuracy", take_accuracy, give_mean, .classes = true},
    [TUSK_RMSE] = {"rmse", take_rmse, give_rmse},
    [TUSK_MAE] = {"mae", take_mae, give_mean},
    [TUSK_R2] = {"r2", take_r2, give_r2},
    [TUSK_BRIER] = {"brier", take_brier, give_mean, .shares = true},
    [TUSK_MAPE] = {"mape", take_mape, give_mean},
    [TUSK_PINBALL] = {"pinball", take_pinball, give_mean, .parameter = true},
    [TUSK_POISSON_DEVIANCE] = {"poisson_deviance", take_poisson, give_mean},
    [TUSK_GAMMA_DEVIANCE] = {"gamma_deviance", take_gamma, give_mean},
    [TUSK_TWEEDIE_DEVIANCE] = {"tweedie_deviance", take_tweedie, give_mean, .parameter = true},
};

const tusk_metric *tusk_metric_of(enum tusk_metric_kind kind) {
    return &METRICS[kind];
}

bool tusk_score_add(tusk_score *s, const tusk_metric *m, const tusk_judged *row, double *loss,
                    char *sentence) {
    if (!tusk_good_weight(row->weight, sentence))
        return false;
    if (row->weight == 0)
        return true;
    s->n += row->weight;
    if (!m->take(s, row, loss, sentence))
        return false;
    tusk_sum_add(&s->error, row->weight * *loss);
    return true;
}

bool tusk_score_take(tusk_score *s, const tusk_metric *m, const tusk_judged *row, char *sentence) {
    double loss;
    return tusk_score_add(s, m, row, &loss, sentence);
}

bool tusk_score_merge(tusk_score *target, const tusk_score *source, char *sentence) {
    if (source->n > 0)
        merge(target, source);
    return one_coding(target, sentence);
}

double tusk_score_give(const tusk_score *s, const tusk_metric *m, bool *null) {
    *null = !(s->n > 0);
    return *null ? 0 : m->give(s, null);
}
