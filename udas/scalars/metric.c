/* The arithmetic of the metrics but auc. */
#include "metric.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* --- sums --- */

static void add(tusk_sum *s, double x) {
    double t = s->sum + x;
    s->carry += fabs(s->sum) >= fabs(x) ? (s->sum - t) + x : (x - t) + s->sum;
    s->sum = t;
}

static void add_sum(tusk_sum *s, const tusk_sum *other) {
    add(s, other->sum);
    s->carry += other->carry;
}

/* An infinite sum leaves a carry that is not a number. */
static double total(const tusk_sum *s) {
    return isfinite(s->sum) ? s->sum + s->carry : s->sum;
}

/* B. P. Welford, Note on a method for calculating corrected sums of squares and products, 1962: no
 * difference of large sums, and a constant label leaves spread at exactly 0. Counting from the
 * first label keeps the digits of a mean that is large against the spread. */
static void spread_add(tusk_score *s, double y) {
    if (s->n == 1)
        s->origin = y;
    double distance = (y - s->origin) - s->mean;
    s->mean += distance / (double)s->n;
    s->spread += distance * ((y - s->origin) - s->mean);
}

/* T. F. Chan, G. H. Golub, R. J. LeVeque, Updating formulae and a pairwise algorithm, 1979. n
 * already holds the rows of both. */
static void spread_merge(tusk_score *s, const tusk_score *other) {
    if (s->n == other->n)
        s->origin = other->origin;
    double weight = (double)other->n / (double)s->n;
    double distance = (other->origin - s->origin) + (other->mean - s->mean);
    s->mean += distance * weight;
    s->spread += other->spread + distance * distance * weight * (double)(s->n - other->n);
}

static void merge(tusk_score *target, const tusk_score *source) {
    target->n += source->n;
    add_sum(&target->error, &source->error);
    spread_merge(target, source);
    target->zero |= source->zero;
    target->minus |= source->minus;
}

/* --- the metrics of single rows --- */

static bool one_coding(const tusk_score *s, char *sentence) {
    if (!s->zero || !s->minus)
        return true;
    snprintf(sentence, TUSK_SENTENCE,
             "label holds both 0 and -1, expected a boolean, 0 or 1, or -1 or +1");
    return false;
}

/* One limit for both ends, as scikit-learn has it: the loss of a row is at most 36.04. */
static bool take_log_loss(tusk_score *s, double y, double p, char *sentence) {
    if (y != 1 && y != 0 && y != -1) {
        snprintf(sentence, TUSK_SENTENCE, "label is %g, expected a boolean, 0 or 1, or -1 or +1",
                 y);
        return false;
    }
    if (!(p >= 0 && p <= 1)) {
        snprintf(sentence, TUSK_SENTENCE, "p is %g, expected a probability between 0 and 1", p);
        return false;
    }
    s->zero |= y == 0;
    s->minus |= y == -1;
    if (!one_coding(s, sentence))
        return false;
    double q = y > 0 ? p : 1 - p;
    add(&s->error, -log(fmin(fmax(q, DBL_EPSILON), 1 - DBL_EPSILON)));
    return true;
}

static bool take_accuracy(tusk_score *s, double y, double p, char *sentence) {
    (void)sentence;
    add(&s->error, y == p);
    return true;
}

static bool take_rmse(tusk_score *s, double y, double p, char *sentence) {
    (void)sentence;
    add(&s->error, (y - p) * (y - p));
    return true;
}

static bool take_mae(tusk_score *s, double y, double p, char *sentence) {
    (void)sentence;
    add(&s->error, fabs(y - p));
    return true;
}

static bool take_r2(tusk_score *s, double y, double p, char *sentence) {
    spread_add(s, y);
    return take_rmse(s, y, p, sentence);
}

static double give_mean(const tusk_score *s, bool *null) {
    (void)null;
    return total(&s->error) / (double)s->n;
}

static double give_rmse(const tusk_score *s, bool *null) {
    return sqrt(give_mean(s, null));
}

/* Nothing varies, nothing to explain: a constant label has no r2. */
static double give_r2(const tusk_score *s, bool *null) {
    *null = s->spread == 0;
    return 1 - total(&s->error) / s->spread;
}

static const tusk_metric METRICS[TUSK_METRICS] = {
    [TUSK_LOG_LOSS] = {"log_loss", take_log_loss, give_mean, false},
    [TUSK_ACCURACY] = {"accuracy", take_accuracy, give_mean, true},
    [TUSK_RMSE] = {"rmse", take_rmse, give_rmse, false},
    [TUSK_MAE] = {"mae", take_mae, give_mean, false},
    [TUSK_R2] = {"r2", take_r2, give_r2, false},
};

const tusk_metric *tusk_metric_of(enum tusk_metric_kind kind) {
    return &METRICS[kind];
}

bool tusk_score_take(tusk_score *s, const tusk_metric *m, double y, double p, char *sentence) {
    s->n++;
    return m->take(s, y, p, sentence);
}

bool tusk_score_merge(tusk_score *target, const tusk_score *source, char *sentence) {
    if (source->n)
        merge(target, source);
    return one_coding(target, sentence);
}

double tusk_score_give(const tusk_score *s, const tusk_metric *m, bool *null) {
    *null = !s->n;
    return *null ? 0 : m->give(s, null);
}
