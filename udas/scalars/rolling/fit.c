#include "fit.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../../kvstore/mapped/clones.h"

/* Share of a feature's sum of squares that other features leave, below which it depends on them:
 * fewer than six digits of its coefficient would be right. */
#define DEPENDENT 1e-10
/* Errors of rounding in a deviation from a mean. */
#define ROUNDINGS 8
#define PLAN "least squares by moments of the rows"
#define OPTIONS "{\"tuskml\":1,\"l1\":0.0,\"l2\":0.0,\"fit_intercept\":true"

enum status { OK, CONSTANT, COLLINEAR, TOO_FEW_ROWS, OUT_OF_RANGE, INVALID_ROWS };

static const char *const STATUS[] = {"ok",           "constant feature", "collinear features",
                                     "too few rows", "out of range",     "invalid rows"};

/* The arrays of a fit in the caller's room; width numbers each, but for the triangles. */
typedef struct work {
    uint32_t d;
    double *coef, *std_err, *scale, *share; /* share: of the inverse's diagonal */
    double *column;                         /* for what a function needs */
    double *factor, *inverse;
} work;

static double *row_of(double *triangle, uint32_t i) {
    return triangle + (size_t)i * (i + 1) / 2;
}

/* a[from .. to] -= by * b[from .. to]. */
static inline void subtract(double *restrict a, const double *restrict b, double by, uint32_t from,
                            uint32_t to) {
    for (uint32_t j = from; j < to; j++)
        a[j] -= by * b[j];
}

/* The Cholesky factor of correlations, in place; width: rows. A column whose pivot is not above
 * the least one becomes zeros, and the last pivot is left squared. Returns how many are above. */
CLONES
static uint32_t factorize(double *triangle, double *restrict column, uint32_t width) {
    uint32_t rank = 0;
    for (uint32_t k = 0; k + 1 < width; k++) {
        double *own = row_of(triangle, k), pivot = own[k];
        if (!(pivot > DEPENDENT)) {
            for (uint32_t i = k; i < width; i++)
                row_of(triangle, i)[k] = 0;
            continue;
        }
        rank++;
        own[k] = sqrt(pivot);
        double by = 1 / own[k];
        for (uint32_t i = k + 1; i < width; i++)
            column[i] = row_of(triangle, i)[k] *= by;
        for (uint32_t i = k + 1; i < width; i++)
            subtract(row_of(triangle, i), column, column[i], k + 1, i + 1);
    }
    return rank;
}

/* The inverse of the first d rows of the factor, with zeros for its columns of zeros. */
CLONES
static void invert(double *restrict inverse, double *factor, uint32_t d) {
    for (uint32_t i = 0; i < d; i++) {
        double *own = row_of(inverse, i), *row = row_of(factor, i);
        memset(own, 0, (i + 1) * sizeof *own);
        if (row[i] == 0)
            continue;
        for (uint32_t k = 0; k < i; k++)
            subtract(own, row_of(inverse, k), row[k], 0, k + 1);
        double by = 1 / row[i];
        for (uint32_t j = 0; j < i; j++)
            own[j] *= by;
        own[i] = by;
    }
}

/* The correlations, lower triangle, with 0 for features that are constant, and the roots of the
 * sums of squares. Returns how many features vary. */
CLONES
static uint32_t correlate(const tusk_moments *m, work *w) {
    const double *products = tusk_products(m), *mean = tusk_means(m);
    uint32_t varying = 0;
    for (uint32_t i = 0; i <= w->d; i++) {
        double square = products[(size_t)i * (i + 1) / 2 + i];
        double rounding = ROUNDINGS * DBL_EPSILON * mean[i];
        bool varies =
            !isfinite(square) || (square > m->weight * rounding * rounding && square >= DBL_MIN);
        w->scale[i] = varies ? sqrt(square) : 0;
        w->column[i] = varies ? 1 / w->scale[i] : 0;
        varying += i < w->d && varies;
    }
    for (uint32_t i = 0; i <= w->d; i++) {
        const double *from = products + (size_t)i * (i + 1) / 2;
        double *restrict to = row_of(w->factor, i);
        for (uint32_t j = 0; j <= i; j++)
            to[j] = from[j] * w->column[i] * w->column[j];
        to[i] = w->scale[i] > 0;
    }
    return varying;
}

/* The coefficients and the intercept, of a factor whose last row is the label's. */
static void solve(tusk_fit *f, const tusk_moments *m, work *w) {
    const double *mean = tusk_means(m), *label = row_of(w->factor, w->d);
    for (uint32_t i = 0; i < w->d; i++)
        w->coef[i] = label[i];
    f->intercept = mean[w->d];
    for (uint32_t i = w->d; i-- > 0;) {
        const double *row = row_of(w->factor, i);
        w->coef[i] = row[i] > 0 ? w->coef[i] / row[i] : 0;
        subtract(w->coef, row, w->coef[i], 0, i);
    }
    for (uint32_t i = 0; i < w->d; i++) {
        if (w->coef[i] != 0)
            w->coef[i] *= w->scale[w->d] / w->scale[i];
        f->intercept -= w->coef[i] * mean[i];
    }
}

/* Standard errors, of s^2 the variance of a label; of what is not determined NaN. Returns how many
 * are numbers. */
CLONES
static uint32_t add_errors(const tusk_moments *m, work *w, double variance) {
    const double *mean = tusk_means(m);
    uint32_t known = 1;
    double all = 1 / m->weight;
    invert(w->inverse, w->factor, w->d);
    memset(w->share, 0, w->d * sizeof *w->share);
    for (uint32_t j = 0; j < w->d; j++)
        w->column[j] = w->scale[j] > 0 ? mean[j] / w->scale[j] : 0;
    for (uint32_t i = 0; i < w->d; i++) {
        const double *row = row_of(w->inverse, i);
        double of_means = 0;
        for (uint32_t j = 0; j <= i; j++) {
            w->share[j] += row[j] * row[j];
            of_means += row[j] * w->column[j];
        }
        all += of_means * of_means;
    }
    w->std_err[0] = sqrt(variance * all);
    for (uint32_t j = 0; j < w->d; j++) {
        bool determined = w->share[j] > 0;
        w->std_err[j + 1] = determined ? sqrt(variance * w->share[j]) / w->scale[j] : NAN;
        known += determined;
    }
    return known;
}

static bool are_finite(const double *x, uint32_t n) {
    double nothing = 0;
    for (uint32_t i = 0; i < n; i++)
        nothing += x[i] * 0;
    return nothing == 0;
}

/* The columns of the one model, which predicts NULL until it is fitted. */
static void begin(tusk_fit *f, const tusk_moments *m, double *coef, double *std_err) {
    *f = (tusk_fit){.n_rows = m->n_rows,
                    .n_skipped = m->n_skipped,
                    .n_features = m->width ? m->width - 1 : 0,
                    .null = -1,
                    .task = "linear",
                    .plan = PLAN,
                    .options = OPTIONS "}",
                    .intercept = NAN,
                    .loss = NAN};
    tusk_strings null = {NULL, &f->null};
    tusk_lists none = {coef, f->none};
    f->models = (tusk_models){.n = 1,
                              .group = &f->group,
                              .task = {&f->task, &f->text},
                              .features = {NULL, NULL, &f->null},
                              .preparation = null,
                              .coef = {coef, f->coef},
                              .intercept = &f->intercept,
                              .std_err = {std_err, f->std_err},
                              .classes = none,
                              .class_names = {NULL, NULL, &f->null},
                              .n_rows = &f->n_rows,
                              .n_skipped = &f->n_skipped,
                              .note = null,
                              .n_features = &f->n_features,
                              .loss = &f->loss,
                              .history = none,
                              .iterations = &f->iterations,
                              .converged = &f->converged,
                              .status = {STATUS, &f->status},
                              .plan = {&f->plan, &f->text},
                              .seconds = &f->seconds,
                              .options = {&f->options, &f->text},
                              .store = null,
                              .trials = null,
                              .spread = none};
}

/* Notes the degrees of freedom where they are not the rows less the standard errors. */
static void note_freedom(tusk_fit *f, double freedom, uint32_t known) {
    if (freedom == (double)f->n_rows - known)
        return;
    snprintf(f->own, sizeof f->own, OPTIONS ",\"freedom\":%.15g}", freedom);
    f->options = f->own;
}

static work divide(uint32_t width, double *room) {
    work w = {.d = width - 1};
    double **arrays[] = {&w.coef, &w.std_err, &w.scale, &w.column, &w.share};
    for (int i = 0; i < 5; i++, room += width)
        *arrays[i] = room;
    w.factor = room;
    w.inverse = room + (size_t)width * (width + 1) / 2;
    return w;
}

void tusk_fit_moments(tusk_fit *f, const tusk_moments *m, double *room) {
    if (!m->width) {
        begin(f, m, NULL, NULL);
        f->status = TOO_FEW_ROWS;
        return;
    }
    work w = divide(m->width, room);
    begin(f, m, w.coef, w.std_err);
    if (m->n_invalid) {
        f->status = INVALID_ROWS;
        f->n_skipped += f->n_rows + m->n_invalid;
        f->n_rows = 0;
        return;
    }
    if (m->n_rows < m->width) {
        f->status = TOO_FEW_ROWS;
        return;
    }
    uint32_t varying = correlate(m, &w), rank = factorize(w.factor, w.column, m->width);
    solve(f, m, &w);
    double squares = fmax(row_of(w.factor, w.d)[w.d], 0) * w.scale[w.d] * w.scale[w.d];
    double freedom = m->weight - rank - 1;
    f->loss = squares / (2 * m->weight);
    if (!are_finite(w.scale, m->width) || !are_finite(w.coef, w.d) || !isfinite(f->intercept) ||
        !isfinite(f->loss)) {
        f->status = OUT_OF_RANGE;
        f->intercept = f->loss = NAN;
        return;
    }
    f->coef[1] = w.d;
    f->converged = 1;
    f->status = rank < varying ? COLLINEAR : varying < w.d ? CONSTANT : OK;
    if (freedom > 0) {
        note_freedom(f, freedom, add_errors(m, &w, squares / freedom));
        f->std_err[1] = m->width;
    }
}
