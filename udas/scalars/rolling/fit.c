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
/* The form of a double. */
#define MANTISSA_BITS 52
#define BIAS 1023
#define PLAN "least squares by moments of the rows"
#define OPTIONS "{\"tuskml\":1,\"l1\":0.0,\"l2\":0.0,\"fit_intercept\":true"

enum status { OK, CONSTANT, COLLINEAR, TOO_FEW_ROWS, OUT_OF_RANGE, INVALID_ROWS };

static const char *const STATUS[] = {"ok",           "constant feature", "collinear features",
                                     "too few rows", "out of range",     "invalid rows"};

/* --- systems of equations, of which a vector has one number each --- */

#define LANES TUSK_FIT_LANES
#define BLOCK TUSK_MOMENT_LANES /* columns of a triangle whose sums fit registers */
typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double))));
typedef int64_t truths
    __attribute__((vector_size(LANES * sizeof(int64_t)), aligned(sizeof(int64_t))));
/* x where a comparison holds, otherwise 0. */
#define WHERE(holds, x) ((lanes)((truths)(holds) & (truths)(x)))

static const lanes ONES = {1, 1, 1, 1};

typedef struct systems {
    size_t d; /* features */
    const tusk_moments *moments[LANES];
    lanes varying, rank, known;    /* counts of features, and of standard errors */
    lanes intercept, squares, all; /* squares: of residuals; all: the intercept's share */
    truths sound;                  /* whether all numbers are finite */
    lanes *coef, *inverse, *share; /* inverse: of the pivots, or 0; share: of errors */
    lanes *scale;                  /* of the features; 0 if they are constant */
    lanes *mean, *factor;          /* as moments have them; the label comes last */
    lanes *factor_inverse;         /* a lower triangle too */
} systems;

/* Row i of a triangle; each is padded to whole blocks of columns. */
static lanes *row_of(lanes *triangle, size_t i) {
    return triangle + tusk_product_row((uint32_t)i);
}

/* Vectors of the n-th numbers of each system, for n numbers in whole vectors. */
CLONES
static void interleave(lanes *restrict out, const double *const *numbers, size_t n) {
    const double *a = numbers[0], *b = numbers[1], *c = numbers[2], *d = numbers[3];
    for (size_t i = 0; i < n; i += LANES, out += LANES) {
        lanes p, q, r, t;
        memcpy(&p, a + i, sizeof p);
        memcpy(&q, b + i, sizeof q);
        memcpy(&r, c + i, sizeof r);
        memcpy(&t, d + i, sizeof t);
        lanes even = __builtin_shufflevector(p, q, 0, 4, 2, 6);
        lanes odd = __builtin_shufflevector(p, q, 1, 5, 3, 7);
        lanes more_even = __builtin_shufflevector(r, t, 0, 4, 2, 6);
        lanes more_odd = __builtin_shufflevector(r, t, 1, 5, 3, 7);
        out[0] = __builtin_shufflevector(even, more_even, 0, 1, 4, 5);
        out[1] = __builtin_shufflevector(odd, more_odd, 0, 1, 4, 5);
        out[2] = __builtin_shufflevector(even, more_even, 2, 3, 6, 7);
        out[3] = __builtin_shufflevector(odd, more_odd, 2, 3, 6, 7);
    }
}

/* The power of two whose square brings a number near 1. */
static inline __attribute__((always_inline)) void scale_of(lanes *scale, const lanes *square) {
    truths exponent = ((truths)*square >> MANTISSA_BITS) - BIAS;
    *scale = (lanes)((BIAS - (exponent >> 1)) << MANTISSA_BITS);
}

/* Copies the moments, with features scaled so that no product leaves the range of doubles.
 * Features are 0 if their sums of squares are 0 but for errors of rounding, and so is the label.
 */
CLONES
static void load(systems *s) {
    const double *numbers[LANES];
    lanes weight = {0}, *scale = s->scale;
    truths sound = ~(truths){0}, varies = sound;
    for (int l = 0; l < LANES; l++) {
        numbers[l] = s->moments[l]->numbers;
        weight[l] = s->moments[l]->weight;
    }
    uint32_t width = (uint32_t)s->d + 1;
    interleave(s->mean, numbers, tusk_padded(width) + tusk_product_row(width));
    s->varying = (lanes){0};
    for (size_t i = 0; i <= s->d; i++) {
        lanes *restrict row = row_of(s->factor, i), square = row[i];
        lanes rounding = ROUNDINGS * DBL_EPSILON * s->mean[i], own = ONES;
        varies = (square > weight * rounding * rounding) & (square >= DBL_MIN);
        sound &= square <= DBL_MAX;
        if (i < s->d) {
            scale_of(&own, &square);
            s->mean[i] *= WHERE(varies, own);
            s->varying += WHERE(varies, ONES);
        }
        own = scale[i] = WHERE(varies, own);
        for (size_t j = 0; j <= i; j++)
            row[j] = row[j] * own * scale[j];
        s->share[i] = row[i];
    }
    s->sound = sound;
}

/* Subtracts from elements first .. first + BLOCK - 1 of row `own` of the triangle, the last one
 * so far, its products with the rows of these numbers, by the columns before. */
static inline __attribute__((always_inline)) void reduce(lanes *own, lanes *triangle, size_t first,
                                                         size_t last) {
    const lanes *rows[BLOCK];
    lanes sums[BLOCK];
#pragma GCC unroll 4
    for (size_t c = 0; c < BLOCK; c++) {
        rows[c] = row_of(triangle, first + c < last ? first + c : last);
        sums[c] = own[first + c];
    }
    for (size_t k = 0; k < first; k++) {
        lanes one = own[k];
#pragma GCC unroll 4
        for (size_t c = 0; c < BLOCK; c++)
            sums[c] -= one * rows[c][k];
    }
#pragma GCC unroll 4
    for (size_t c = 0; c < BLOCK; c++) {
        if (first + c >= last)
            break;
#pragma GCC unroll 4
        for (size_t e = 0; e < c; e++)
            sums[c] -= sums[e] * rows[c][first + e];
        own[first + c] = sums[c];
    }
}

/* The factor L of a matrix L D L', in place, a row after another, and the inverses of the pivots
 * D. A column whose pivot is too small a share of the feature's sum of squares becomes zeros. The
 * label's pivot is the sum of squares of the residuals. */
CLONES
static void factorize(systems *s) {
    lanes *restrict inverse = s->inverse;
    s->rank = (lanes){0};
    for (size_t i = 0; i <= s->d; i++) {
        lanes *restrict own = row_of(s->factor, i), pivot = own[i];
        for (size_t first = 0; first < i; first += BLOCK)
            reduce(own, s->factor, first, i);
        for (size_t j = 0; j < i; j++) {
            lanes one = own[j] * inverse[j];
            pivot -= own[j] * one;
            own[j] = one;
        }
        truths above = (s->share[i] > 0) & (pivot > DEPENDENT * s->share[i]);
        inverse[i] = WHERE(above, 1 / pivot);
        if (i < s->d)
            s->rank += WHERE(above, ONES);
        else
            s->squares = WHERE(pivot > 0, pivot);
    }
}

/* The coefficients and the intercepts. */
CLONES
static void solve(systems *s) {
    lanes *restrict coef = s->coef, intercept = s->mean[s->d];
    memcpy(coef, row_of(s->factor, s->d), s->d * sizeof *coef);
    for (size_t i = s->d; i-- > 0;) {
        const lanes *row = row_of(s->factor, i);
        lanes one = coef[i];
        for (size_t j = 0; j < i; j++)
            coef[j] -= one * row[j];
        intercept -= one * s->mean[i];
        coef[i] = one *= s->scale[i];
        s->sound &= (one <= DBL_MAX) & (one >= -DBL_MAX);
    }
    s->intercept = intercept;
    s->sound &= (intercept <= DBL_MAX) & (intercept >= -DBL_MAX);
}

/* The inverse of the first d rows of the factor, with zeros above the diagonal. */
CLONES
static void invert(systems *s) {
    for (size_t i = 0; i < s->d; i++) {
        lanes *restrict own = row_of(s->factor_inverse, i);
        const lanes *row = row_of(s->factor, i);
        for (size_t first = 0; first <= i; first += BLOCK) {
            lanes sums[BLOCK] = {{0}, {0}, {0}, {0}};
            const lanes *former = row_of(s->factor_inverse, first) + first;
            for (size_t k = first; k < i; k++) {
#pragma GCC unroll 4
                for (size_t c = 0; c < BLOCK; c++)
                    sums[c] -= row[k] * former[c];
                former += (k / BLOCK + 1) * BLOCK;
            }
#pragma GCC unroll 4
            for (size_t c = 0; c < BLOCK; c++)
                own[first + c] = sums[c];
        }
        own[i] = ONES;
    }
}

/* The shares of standard errors in the deviation of a label, squared. */
CLONES
static void add_shares(systems *s) {
    lanes *restrict share = s->share, weight = {0};
    for (int l = 0; l < LANES; l++)
        weight[l] = s->moments[l]->weight;
    s->all = 1 / weight;
    memset(share, 0, s->d * sizeof *share);
    for (size_t i = 0; i < s->d; i++) {
        const lanes *row = row_of(s->factor_inverse, i);
        lanes of_means = {0}, inverse = s->inverse[i];
        for (size_t j = 0; j <= i; j++) {
            share[j] += inverse * row[j] * row[j];
            of_means += row[j] * s->mean[j];
        }
        s->all += inverse * of_means * of_means;
    }
    s->known = ONES;
    for (size_t j = 0; j < s->d; j++)
        s->known += WHERE(share[j] > 0, ONES);
}

/* --- models --- */

/* The columns of n models, which predict NULL until they are fitted. */
static void begin(tusk_fits *f, uint32_t n, const double *coef, const double *std_err) {
    f->task = "linear";
    f->plan = PLAN;
    f->options[0] = OPTIONS "}";
    tusk_strings null = {NULL, f->null};
    tusk_names no_names = {NULL, NULL, f->null};
    tusk_lists none = {coef, f->none};
    f->models = (tusk_models){.n = n,
                              .group = f->group,
                              .task = {&f->task, f->text},
                              .features = no_names,
                              .preparation = null,
                              .coef = {coef, f->coef},
                              .intercept = f->intercept,
                              .std_err = {std_err, f->std_err},
                              .classes = none,
                              .class_names = no_names,
                              .n_rows = f->n_rows,
                              .n_skipped = f->n_skipped,
                              .note = null,
                              .n_features = f->n_features,
                              .loss = f->loss,
                              .history = none,
                              .iterations = f->iterations,
                              .converged = f->converged,
                              .status = {STATUS, f->status},
                              .plan = {&f->plan, f->text},
                              .seconds = f->seconds,
                              .options = {f->options, f->chosen},
                              .store = null,
                              .trials = null,
                              .spread = none,
                              .histogram = null};
    f->none[0] = f->coef[0] = f->std_err[0] = 0;
}

/* Model i before it is fitted; whether it can be. */
static bool describe(tusk_fits *f, uint32_t i, const tusk_moments *m) {
    f->group[i] = i;
    f->n_rows[i] = m->n_rows;
    f->n_skipped[i] = m->n_skipped;
    f->n_features[i] = m->width ? m->width - 1 : 0;
    f->iterations[i] = f->none[i + 1] = f->coef[i + 1] = f->std_err[i + 1] = 0;
    f->intercept[i] = f->loss[i] = NAN;
    f->seconds[i] = 0;
    f->converged[i] = 0;
    f->null[i] = -1;
    f->text[i] = f->chosen[i] = 0;
    f->status[i] = TOO_FEW_ROWS;
    if (m->n_invalid) {
        f->status[i] = INVALID_ROWS;
        f->n_skipped[i] += f->n_rows[i] + m->n_invalid;
        f->n_rows[i] = 0;
        return false;
    }
    return m->width && m->n_rows >= m->width;
}

/* Notes the degrees of freedom where they are not the rows less the standard errors. */
static void note_freedom(tusk_fits *f, uint32_t i, double freedom, double known) {
    if (freedom == (double)f->n_rows[i] - known)
        return;
    snprintf(f->own[i], sizeof f->own[i], OPTIONS ",\"freedom\":%.15g}", freedom);
    f->options[i + 1] = f->own[i];
    f->chosen[i] = (int32_t)i + 1;
}

/* Standard errors by the variance of a label; of what is not determined NaN. */
static void put_errors(const systems *s, int l, double variance, double *out) {
    *out++ = sqrt(variance * s->all[l]);
    for (size_t j = 0; j < s->d; j++)
        out[j] = s->share[j][l] > 0 ? sqrt(variance * s->share[j][l]) * s->scale[j][l] : NAN;
}

/* Where the next lists begin. */
typedef struct ends {
    double *coef, *std_err;
} ends;

/* Writes the answer of system l into model i. The offsets of its lists become their lengths. */
static void put(tusk_fits *f, const systems *s, int l, uint32_t i, ends *to) {
    double rank = s->rank[l], varying = s->varying[l], weight = s->moments[l]->weight;
    /* As many coefficients as rows leave residuals of 0. */
    double squares = (double)f->n_rows[i] > rank + 1 ? s->squares[l] : 0;
    double freedom = weight - rank - 1, loss = squares / (2 * weight);
    if (!s->sound[l] || !isfinite(loss)) {
        f->status[i] = OUT_OF_RANGE;
        return;
    }
    f->intercept[i] = s->intercept[l];
    f->loss[i] = loss;
    f->converged[i] = 1;
    f->status[i] = rank < varying ? COLLINEAR : varying < (double)s->d ? CONSTANT : OK;
    for (size_t j = 0; j < s->d; j++)
        *to->coef++ = s->coef[j][l];
    f->coef[i + 1] = (int64_t)s->d;
    if (freedom > 0) {
        note_freedom(f, i, freedom, s->known[l]);
        put_errors(s, l, squares / freedom, to->std_err);
        to->std_err += s->d + 1;
        f->std_err[i + 1] = (int64_t)s->d + 1;
    }
}

static systems divide(uint32_t width, double *room) {
    systems s = {.d = width - 1};
    lanes *at = (lanes *)room;
    s.coef = at;
    s.inverse = s.coef + width;
    s.share = s.inverse + width;
    s.scale = s.share + width;
    s.mean = s.scale + width;
    s.factor = s.mean + tusk_padded(width);
    s.factor_inverse = s.factor + tusk_product_row(width);
    return s;
}

/* Fits n models, which are named; the last one fills the systems that are left. */
static void fit(tusk_fits *f, systems *s, const tusk_moments *const *moments,
                const uint32_t *models, uint32_t n, ends *to) {
    for (uint32_t l = 0; l < LANES; l++)
        s->moments[l] = moments[models[l < n ? l : n - 1]];
    load(s);
    factorize(s);
    solve(s);
    invert(s);
    add_shares(s);
    for (uint32_t l = 0; l < n; l++)
        put(f, s, (int)l, models[l], to);
}

void tusk_fit_moments(tusk_fits *f, const tusk_moments *const *moments, uint32_t n, double *room) {
    uint32_t width = moments[0]->width, held = 0, models[LANES];
    ends to = {room, room + (size_t)n * width};
    begin(f, n, to.coef, to.std_err);
    systems s = divide(width, to.std_err + (size_t)n * width);
    for (uint32_t i = 0; i < n; i++) {
        if (describe(f, i, moments[i]))
            models[held++] = i;
        if (held == LANES || (held && i + 1 == n)) {
            fit(f, &s, moments, models, held, &to);
            held = 0;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        f->coef[i + 1] += f->coef[i];
        f->std_err[i + 1] += f->std_err[i];
    }
}
