#include "interval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../../kvstore/mapped/clones.h"
#include "../student.h"

#define MOST_TERMS 1024
#define BLOCK 64 /* rows whose errors are kept at once */

uint64_t tusk_terms_of(uint64_t n) {
    uint64_t terms = (uint64_t)((sqrt(8 * (double)n + 1) - 1) / 2);
    while ((terms + 1) * (terms + 2) / 2 <= n)
        terms++;
    return terms;
}

void tusk_covariances_of(const tusk_weight *factor, uint64_t terms, uint64_t i, double *out) {
    const tusk_weight *own = factor + i * (i + 1) / 2, *other = factor;
    for (uint64_t j = 0; j < terms; other += ++j) {
        out[j] = 0;
        for (uint64_t k = 0; k <= (i < j ? i : j); k++)
            out[j] += own[k] * other[k];
    }
}

static bool open_spread(const tusk_payload_view *v, tusk_scorer *s, char *sentence) {
    tusk_band *spread = &s->spread;
    uint64_t n = v->head.n_spread, terms = s->n_coef + 1;
    *spread = (tusk_band){.kind = TUSK_NO_SPREAD, .freedom = NAN, .variance = NAN};
    if (n <= TUSK_ABOUT_SPREAD)
        return true;
    int kind = v->spread[0] > 0 && v->spread[0] < TUSK_BAND_KINDS ? (int)v->spread[0] : 0;
    spread->kind = (enum tusk_band_kind)kind;
    spread->freedom = v->spread[1];
    spread->variance = v->spread[2];
    spread->items = v->spread + TUSK_ABOUT_SPREAD;
    spread->n = n - TUSK_ABOUT_SPREAD;
    bool whole = spread->kind == TUSK_COVARIANCE
                     ? terms <= MOST_TERMS && spread->n == terms * (terms + 1) / 2
                 : spread->kind == TUSK_PLATT ? spread->n == 2
                                              : kind && spread->n % 2 == 0;
    if (!whole)
        snprintf(sentence, TUSK_SENTENCE,
                 "the payload of the model has not all numbers of its intervals or probabilities");
    return whole;
}

bool tusk_read_spread(const tusk_payload_view *v, enum tusk_answer answer, tusk_scorer *s,
                      char *sentence) {
    if (!open_spread(v, s, sentence))
        return false;
    if (answer != TUSK_PREDICT_INTERVAL)
        return true;
    s->has_interval = true;
    s->list_size = TUSK_INTERVAL_FIELDS;
    return tusk_set_level(s, TUSK_USUAL_LEVEL, sentence);
}

/* The distance from a prediction of the first level that is not below the requested one; infinite
 * if there is none. */
static double distance_of(const tusk_band *spread) {
    uint64_t n = spread->n / 2, low = 0, high = n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (spread->items[middle] < spread->level)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n ? spread->items[n + low] : INFINITY;
}

bool tusk_set_level(tusk_scorer *s, double level, char *sentence) {
    tusk_band *spread = &s->spread;
    if (!(level > 0 && level < 1)) {
        snprintf(sentence, TUSK_SENTENCE,
                 "level is %g, expected a number between 0 and 1, such as 0.95", level);
        return false;
    }
    if (spread->level == level)
        return true;
    spread->level = level;
    if (spread->kind == TUSK_COVARIANCE)
        spread->reach = tusk_t_of_level(spread->freedom, level);
    else if (spread->kind == TUSK_CONFORMAL)
        spread->reach = distance_of(spread);
    return true;
}

/* --- standard errors of margins, |z' L| for z, the intercept's 1 and the features --- */

#define LANES 8   /* rows whose errors are computed at once */
#define COLUMNS 4 /* of L at once */
typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));

/* L as rows of its lower triangle, z of shape (terms, LANES): the squared sums of COLUMNS columns
 * from k on, which all have terms from k + COLUMNS - 1 on. */
#define ADD_COLUMNS(square, factor, z, terms, k)                       \
    do {                                                               \
        lanes sum[COLUMNS] = {{0}};                                    \
        const tusk_weight *row = (factor) + (k) * ((k) + 1) / 2 + (k); \
        for (uint64_t j = (k); j < (terms); row += ++j)                \
            for (uint64_t q = 0; q < COLUMNS; q++)                     \
                sum[q] += (k) + q <= j ? row[q] * (z)[j] : (lanes){0}; \
        for (uint64_t q = 0; q < COLUMNS; q++)                         \
            (square) += sum[q] * sum[q];                               \
    } while (0)

/* The squared errors of n rows of d features. */
#define DEFINE_SQUARES(name, T)                                                            \
    CLONES static void name(const tusk_weight *factor, const T *x, uint64_t d, uint64_t n, \
                            double *out) {                                                 \
        lanes z[MOST_TERMS];                                                               \
        for (uint64_t i = 0; i < n; i += LANES, x += LANES * d) {                          \
            uint64_t rows = n - i < LANES ? n - i : LANES;                                 \
            lanes square = {0};                                                            \
            z[0] = square + 1;                                                             \
            for (uint64_t j = 0; j < d; j++)                                               \
                for (uint64_t r = 0; r < LANES; r++)                                       \
                    z[j + 1][r] = x[(r < rows ? r : 0) * d + j];                           \
            for (uint64_t k = 0; k <= d; k += COLUMNS)                                     \
                ADD_COLUMNS(square, factor, z, d + 1, k);                                  \
            for (uint64_t r = 0; r < rows; r++)                                            \
                out[i + r] = square[r];                                                    \
        }                                                                                  \
    }

DEFINE_SQUARES(squares_f32, float)
DEFINE_SQUARES(squares_f64, double)

static double sparse_square(const tusk_scorer *s, const tusk_sparse_row *row, bool f64) {
    const tusk_weight *factor = s->spread.items;
    double sums[MOST_TERMS] = {factor[0]}, square = 0;
    for (uint64_t i = 0; i < row->n_ids; i++) {
        uint64_t id = (uint64_t)tusk_id_at(row, i);
        double x = f64 ? ((const double *)row->values)[i] : ((const float *)row->values)[i];
        if (id < s->n_coef) /* others weigh nothing */
            for (uint64_t k = 0; k <= id + 1; k++)
                sums[k] += x * factor[(id + 1) * (id + 2) / 2 + k];
    }
    for (uint64_t k = 0; k <= s->n_coef; k++)
        square += sums[k] * sums[k];
    return square;
}

/* --- intervals --- */

static void to_means(const tusk_scorer *s, double *m, uint64_t n) {
    if (tusk_has_classes(s))
        tusk_to_probabilities(s, m, n);
    else
        tusk_to_predictions(s, m, n);
}

static double logistic_slope(double m) {
    double e = exp(-fabs(m));
    return e / ((1 + e) * (1 + e));
}

/* The size of the derivative of the mean by the margin m. */
static double slope_at(const tusk_scorer *s, double m) {
    switch (s->response) {
    case TUSK_EXP:
        return exp(m);
    case TUSK_INVERSE:
        return 1 / (m * m);
    case TUSK_SQUARE:
        return 2 * fabs(m);
    case TUSK_INVERSE_ROOT:
        return 0.5 / (m * sqrt(m));
    case TUSK_NORMAL_SHARE:
        return 0.39894228040143267794 * exp(-0.5 * m * m);
    case TUSK_CLOGLOG_SHARE:
        return exp(m - exp(m));
    default:
        return tusk_has_classes(s) || s->response == TUSK_INVERSE_LOGIT ? logistic_slope(m) : 1;
    }
}

/* Cuts the interval of a margin m where the link's domain ends, at 0. */
static void cut_at_0(const tusk_scorer *s, double m, double *lower, double *upper) {
    bool cut = s->response == TUSK_INVERSE || s->response == TUSK_SQUARE ||
               s->response == TUSK_INVERSE_ROOT;
    if (cut && m > 0 && *lower < 0)
        *lower = 0;
    if (cut && m < 0 && *upper > 0)
        *upper = -0.0;
}

/* Turns n margins, in place of the fits, and their squared errors into intervals. */
static void to_intervals(const tusk_scorer *s, uint64_t n, const double *square,
                         double *const ends[TUSK_INTERVAL_FIELDS]) {
    const tusk_band *spread = &s->spread;
    bool known = spread->kind == TUSK_COVARIANCE, near = spread->kind == TUSK_CONFORMAL;
    double reach = known || (near && isfinite(spread->reach)) ? spread->reach : NAN;
    double *fit = ends[TUSK_FIT], *lower = ends[TUSK_LOWER], *upper = ends[TUSK_UPPER];
    double *error = ends[TUSK_FIT_STD_ERR];
    for (uint64_t i = 0; i < n; i++) {
        double m = fit[i], e = known ? sqrt(square[i]) : NAN;
        lower[i] = m - reach * e;
        upper[i] = m + reach * e;
        cut_at_0(s, m, lower + i, upper + i);
        error[i] = e * slope_at(s, m);
    }
    to_means(s, fit, n);
    to_means(s, lower, n);
    to_means(s, upper, n);
    for (uint64_t i = 0; i < n; i++) {
        double low = lower[i], high = upper[i];
        double wide = known ? reach * sqrt(error[i] * error[i] + spread->variance) : reach;
        lower[i] = fmin(low, high); /* the mean may fall with the margin */
        upper[i] = fmax(low, high);
        ends[TUSK_PREDICTION_LOWER][i] = fit[i] - wide;
        ends[TUSK_PREDICTION_UPPER][i] = fit[i] + wide;
    }
}

bool tusk_intervals(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                    double *const ends[TUSK_INTERVAL_FIELDS], char *sentence) {
    double square[BLOCK];
    const char *row = x;
    if (s->spread.kind == TUSK_COVARIANCE && d != s->n_coef) {
        snprintf(sentence, TUSK_SENTENCE, "the model has %llu features, row has %llu",
                 (unsigned long long)s->n_coef, (unsigned long long)d);
        return false;
    }
    for (uint64_t at = 0; at < n; at += BLOCK, row += BLOCK * d * (f64 ? 8 : 4)) {
        uint64_t some = n - at < BLOCK ? n - at : BLOCK;
        double *to[TUSK_INTERVAL_FIELDS];
        for (int k = 0; k < TUSK_INTERVAL_FIELDS; k++)
            to[k] = ends[k] + at;
        if (!tusk_margins(s, row, f64, d, some, to[TUSK_FIT], sentence))
            return false;
        if (s->spread.kind == TUSK_COVARIANCE && f64)
            squares_f64(s->spread.items, (const double *)row, d, some, square);
        else if (s->spread.kind == TUSK_COVARIANCE)
            squares_f32(s->spread.items, (const float *)row, d, some, square);
        to_intervals(s, some, square, to);
    }
    return true;
}

bool tusk_interval(tusk_scorer *s, const tusk_sparse_row *sparse, const void *x, bool f64,
                   uint64_t d, double *out, char *sentence) {
    double *ends[TUSK_INTERVAL_FIELDS], square = NAN;
    for (int k = 0; k < TUSK_INTERVAL_FIELDS; k++)
        ends[k] = out + k;
    if (!sparse)
        return tusk_intervals(s, x, f64, d, 1, ends, sentence);
    if (!tusk_sparse_margin(s, sparse, f64, out, sentence))
        return false;
    if (s->spread.kind == TUSK_COVARIANCE)
        square = sparse_square(s, sparse, f64);
    to_intervals(s, 1, &square, ends);
    return true;
}
