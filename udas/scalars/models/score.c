/* The arithmetic of predictions, over runs of rows. */
#include "score.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../../kvstore/mapped/clones.h"
#include "../exponential.h"
#include "kinds.h"
#include "margins.h"

#define LANES 4
typedef float lanes_f32 __attribute__((vector_size(LANES * sizeof(float))));
typedef double lanes_f64 __attribute__((vector_size(LANES * sizeof(double))));

/* sum += x[0 .. LANES - 1] * w[0 .. LANES - 1]. gcc 12 compiles this conversion to one
 * instruction, and __builtin_convertvector to four. */
#define ADD_LANES(lanes_T, sum, x, w)           \
    do {                                        \
        lanes_T u;                              \
        lanes_f64 v;                            \
        memcpy(&u, x, sizeof u);                \
        memcpy(&v, w, sizeof v);                \
        lanes_f64 t = {u[0], u[1], u[2], u[3]}; \
        sum += t * v;                           \
    } while (0)

/* out = x w + b for x of shape (n, d). Every row is summed in the same order, so its margin
 * does not depend on the rows around it. */
#define DEFINE_MARGINS(name, T, lanes_T)                                                        \
    CLONES static void name(const T *x, uint64_t d, uint64_t n, const tusk_weight *w, double b, \
                            double *out) {                                                      \
        for (uint64_t i = 0; i < n; i++, x += d) {                                              \
            lanes_f64 even = {0}, odd = {0};                                                    \
            uint64_t j = 0;                                                                     \
            for (; j + 2 * LANES <= d; j += 2 * LANES) {                                        \
                ADD_LANES(lanes_T, even, x + j, w + j);                                         \
                ADD_LANES(lanes_T, odd, x + j + LANES, w + j + LANES);                          \
            }                                                                                   \
            if (j + LANES <= d) {                                                               \
                ADD_LANES(lanes_T, even, x + j, w + j);                                         \
                j += LANES;                                                                     \
            }                                                                                   \
            even += odd;                                                                        \
            double sum = b;                                                                     \
            for (; j < d; j++)                                                                  \
                sum += x[j] * w[j];                                                             \
            out[i] = sum + ((even[0] + even[2]) + (even[1] + even[3]));                         \
        }                                                                                       \
    }

DEFINE_MARGINS(margins_f32, float, lanes_f32)
DEFINE_MARGINS(margins_f64, tusk_weight, lanes_f64) /* also for vectors in a payload */

/* 1 / (1 + exp(-m)), using exp only of numbers <= 0: nothing overflows, and small probabilities
 * keep all digits. */
CLONES static void probabilities(double *m, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        double e = tusk_exp_of_negative(-__builtin_fabs(m[i]));
        m[i] = (m[i] < 0 ? e : 1) / (1 + e);
    }
}

/* The line through the knots around a margin; the end's probability beyond the knots. */
static double isotonic(const tusk_band *knots, double m) {
    uint64_t n = knots->n / 2, low = 0, high = n;
    const tusk_weight *x = knots->items, *p = knots->items + n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (x[middle] < m)
            low = middle + 1;
        else
            high = middle;
    }
    if (m != m || !n)
        return NAN;
    if (low == 0 || low == n || x[low] == m)
        return p[low == n ? n - 1 : low];
    double share = (m - x[low - 1]) / (x[low] - x[low - 1]);
    return p[low - 1] + share * (p[low] - p[low - 1]);
}

static void calibrated(const tusk_band *spread, double *m, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        m[i] = spread->kind == TUSK_ISOTONIC ? isotonic(spread, m[i])
                                             : spread->items[0] * m[i] + spread->items[1];
    if (spread->kind == TUSK_PLATT)
        probabilities(m, n);
}

void tusk_to_probabilities(const tusk_scorer *s, double *m, uint64_t n) {
    if (tusk_is_calibrated(s))
        calibrated(&s->spread, m, n);
    else if (s->cuts)
        for (uint64_t i = 0; i < n; i++)
            m[i] = tusk_share_of_highest(s, m[i]);
    else if (s->response == TUSK_NORMAL_SHARE)
        for (uint64_t i = 0; i < n; i++)
            m[i] = 0.5 * erfc(-m[i] * 0.70710678118654752440);
    else if (s->response == TUSK_CLOGLOG_SHARE)
        for (uint64_t i = 0; i < n; i++)
            m[i] = -expm1(-exp(m[i]));
    else if (s->response != TUSK_SHARES)
        probabilities(m, n);
    else
        for (uint64_t i = 0; i < n; i++)
            m[i] = m[i] >= 0.5 ? 1 : m[i] <= -0.5 ? 0 : m[i] + 0.5;
}

#define LOG_LOG_2 -0.36651292058166432701 /* where 1 - exp(-exp(m)) is 1/2 */

/* Maps each margin to the likelier class; a NaN margin has no class. */
static void to_classes(const tusk_scorer *s, double *m, uint64_t n) {
    double negative = s->negative, positive = s->positive;
    double even = s->response == TUSK_CLOGLOG_SHARE ? LOG_LOG_2 : 0;
    if (tusk_is_calibrated(s)) {
        calibrated(&s->spread, m, n);
        even = 0.5;
    }
    for (uint64_t i = 0; i < n; i++)
        m[i] = m[i] >= even ? positive : m[i] < even ? negative : m[i];
}

static double number_of(enum tusk_response response, double m) {
    switch (response) {
    case TUSK_EXP:
        return exp(m);
    case TUSK_INVERSE:
        return 1 / m;
    case TUSK_SQUARE:
        return m * m;
    case TUSK_INVERSE_ROOT:
        return 1 / sqrt(m);
    default:
        return m;
    }
}

void tusk_to_predictions(const tusk_scorer *s, double *m, uint64_t n) {
    if (s->cuts)
        for (uint64_t i = 0; i < n; i++)
            m[i] = tusk_likeliest_level(s, m[i]);
    else if (tusk_has_classes(s))
        to_classes(s, m, n);
    else if (s->response == TUSK_INVERSE_LOGIT)
        probabilities(m, n);
    else if (s->response != TUSK_IDENTITY)
        for (uint64_t i = 0; i < n; i++)
            m[i] = number_of(s->response, m[i]);
}

bool tusk_adds_offsets(const tusk_scorer *s, char *sentence) {
    if (s->null || (tusk_kind_of(s->task)->adds_offsets && s->response != TUSK_SHARES &&
                    (!s->labels || s->cuts)))
        return true;
    snprintf(sentence, TUSK_SENTENCE,
             "the model takes no offset, expected a generalized linear model or boosted trees, of "
             "numbers or of two classes, or an ordinal model");
    return false;
}

void tusk_dot_rows(const void *x, bool f64, uint64_t d, uint64_t n, const tusk_weight *w, double b,
                   double *out) {
    if (f64)
        margins_f64(x, d, n, w, b, out);
    else
        margins_f32(x, d, n, w, b, out);
}

bool tusk_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n, double *out,
                  char *sentence) {
    const tusk_model_kind *kind = tusk_kind_of(s->task);
    if (s->labels && !kind->picks_class)
        return tusk_best_classes(s, x, f64, d, n, out, sentence);
    if (kind->margins && (s->n_coef || kind->reads_store))
        return kind->margins(s, x, f64, d, n, out, sentence);
    if (s->stored)
        return tusk_stored_margins(s, x, f64, d, n, out, sentence);
    if (s->n_coef && d != s->n_coef) {
        snprintf(sentence, TUSK_SENTENCE, "the model has %llu features, row has %llu",
                 (unsigned long long)s->n_coef, (unsigned long long)d);
        return false;
    }
    if (!s->n_coef)
        for (uint64_t i = 0; i < n; i++)
            out[i] = s->intercept;
    else
        tusk_dot_rows(x, f64, d, n, s->coef, s->intercept, out);
    return true;
}

/* Ids that the model has not seen weigh 0. False for a negative one. */
#define DEFINE_MARGIN(name, ID, T)                                                    \
    static bool name(const tusk_scorer *s, const tusk_sparse_row *row, double *out) { \
        const ID *ids = row->ids;                                                     \
        const T *x = row->values;                                                     \
        double sum = s->intercept;                                                    \
        for (uint64_t i = 0; i < row->n_ids; i++) {                                   \
            if (ids[i] < 0)                                                           \
                return false;                                                         \
            if ((uint64_t)ids[i] < s->n_coef)                                         \
                sum += x[i] * s->coef[ids[i]];                                        \
        }                                                                             \
        *out = sum;                                                                   \
        return true;                                                                  \
    }

DEFINE_MARGIN(margin_i32_f32, int32_t, float)
DEFINE_MARGIN(margin_i32_f64, int32_t, double)
DEFINE_MARGIN(margin_i64_f32, int64_t, float)
DEFINE_MARGIN(margin_i64_f64, int64_t, double)

bool tusk_check_ids(const tusk_sparse_row *row, char *sentence) {
    for (uint64_t i = 0; i < row->n_ids; i++) {
        int64_t id = tusk_id_at(row, i);
        if (id >= 0)
            continue;
        snprintf(sentence, TUSK_SENTENCE, "feature id %lld is negative, ids start at 0",
                 (long long)id);
        return false;
    }
    return true;
}

bool tusk_check_pairs(const tusk_sparse_row *row, char *sentence) {
    if (row->n_ids == row->n_values)
        return true;
    snprintf(sentence, TUSK_SENTENCE,
             "row has %llu indices and %llu values, expected as many of both",
             (unsigned long long)row->n_ids, (unsigned long long)row->n_values);
    return false;
}

bool tusk_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                        char *sentence) {
    if (!tusk_check_pairs(row, sentence))
        return false;
    const tusk_model_kind *kind = tusk_kind_of(s->task);
    if (s->labels && !kind->picks_class)
        return tusk_best_class(s, row, f64, out, sentence);
    if (kind->sparse_margin && (s->n_coef || kind->reads_store))
        return kind->sparse_margin(s, row, f64, out, sentence);
    if (s->stored)
        return tusk_stored_sparse_margin(s, row, f64, out, sentence);
    bool done = row->wide ? (f64 ? margin_i64_f64 : margin_i64_f32)(s, row, out)
                          : (f64 ? margin_i32_f64 : margin_i32_f32)(s, row, out);
    return done || tusk_check_ids(row, sentence);
}
