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

/* --- systems of equations, of which a vector has one number each --- */

#define LANES TUSK_FIT_LANES
#define BLOCK TUSK_MOMENT_LANES /* columns of a triangle whose sums fit registers */
typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double))));
typedef int64_t truths
    __attribute__((vector_size(LANES * sizeof(int64_t)), aligned(sizeof(int64_t))));
/* x where a comparison holds, otherwise 0. */
#define WHERE(holds, x) ((lanes)((holds) & (truths)(x)))

static const lanes ONES = {1, 1, 1, 1};

typedef struct systems {
    size_t d; /* features */
    const tusk_moments *moments[LANES];
    lanes varying, rank;   /* counts of features */
    lanes intercept, left; /* left: the squared last pivots */
    lanes all, known;      /* the intercept's factor of variance; how many errors are known */
    /* Of features, and of the label, which comes last: */
    lanes *coef, *scale, *share; /* share: of the inverse's diagonal */
    lanes *mean, *column, *by;   /* column, by: for what a function needs */
    lanes *factor, *inverse;     /* lower triangles */
} systems;

/* Row i of a triangle; each is padded to whole blocks of columns. */
static lanes *row_of(lanes *triangle, size_t i) {
    return triangle + tusk_product_row((uint32_t)i);
}

/* Elements of the arrays of moments, one of each system. */
#define GATHER(arrays, i) ((lanes){(arrays)[0][i], (arrays)[1][i], (arrays)[2][i], (arrays)[3][i]})

/* The roots of the sums of squares, and their inverses; 0 for features that are constant. */
CLONES
static void measure(systems *s) {
    const double *products[LANES], *means[LANES];
    lanes *scale = s->scale, *inverse = s->by, *mean = s->mean, varying = {0}, weight = {0}, root = {0};
    for (int l = 0; l < LANES; l++) {
        products[l] = tusk_products(s->moments[l]);
        means[l] = tusk_means(s->moments[l]);
        weight[l] = s->moments[l]->weight;
    }
    for (size_t i = 0; i <= s->d; i++) {
        size_t at = tusk_product_row((uint32_t)i) + i;
        lanes square = GATHER(products, at), rounding;
        mean[i] = GATHER(means, i);
        rounding = ROUNDINGS * DBL_EPSILON * mean[i];
        truths varies = (square > weight * rounding * rounding) & (square >= DBL_MIN);
        varies |= ~(square <= DBL_MAX);
        for (int l = 0; l < LANES; l++)
            root[l] = sqrt(square[l]);
        scale[i] = WHERE(varies, root);
        inverse[i] = WHERE(varies, 1 / root);
        if (i < s->d)
            varying += WHERE(varies, ONES);
    }
    s->varying = varying;
}

/* The correlations, lower triangle, with 0 for features that are constant. */
CLONES
static void correlate(systems *s) {
    const double *from[LANES];
    const lanes *by = s->by;
    for (int l = 0; l < LANES; l++)
        from[l] = tusk_products(s->moments[l]);
    for (size_t i = 0; i <= s->d; i++) {
        lanes *restrict to = row_of(s->factor, i), own = by[i];
        for (size_t j = 0; j < i; j++)
            to[j] = GATHER(from, j) * own * by[j];
        to[i] = WHERE(own > 0, ONES);
        for (int l = 0; l < LANES; l++)
            from[l] += (i / BLOCK + 1) * BLOCK;
    }
}

/* Sums over columns k before `first` of products of row `own` with rows first .. first + BLOCK - 1
 * of a triangle, subtracted from the elements of `own` there. Rows behind `last`, which is `own`,
 * do not count. */
static inline __attribute__((always_inline)) void
reduce(lanes *left, const lanes *own, lanes *triangle, size_t first, size_t last) {
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
    for (size_t c = 0; c < BLOCK; c++)
        left[c] = sums[c];
}

/* The root of a pivot in place of it, 0 if it is not above the least one; its inverse, or 0. */
static inline __attribute__((always_inline)) void root_of(lanes *pivot, lanes *inverse,
                                                          lanes *rank) {
    truths above = *pivot > DEPENDENT;
    lanes root;
    for (int l = 0; l < LANES; l++)
        root[l] = above[l] ? sqrt((*pivot)[l]) : 0;
    *pivot = root;
    *inverse = WHERE(above, 1 / root);
    *rank += WHERE(above, ONES);
}

/* The Cholesky factor of correlations, in place, a row after another. A column whose pivot is not
 * above the least one becomes zeros, and the last pivot is left squared. The rank is how many are
 * above. `column` gets the inverses of the diagonal. */
CLONES
static void factorize(systems *s) {
    lanes *inverse = s->column, rank = {0}, left[BLOCK];
    for (size_t i = 0; i <= s->d; i++) {
        lanes *own = row_of(s->factor, i);
        for (size_t first = 0; first <= i; first += BLOCK) {
            reduce(left, own, s->factor, first, i);
            for (size_t c = 0; c < BLOCK && first + c <= i; c++) {
                lanes one = left[c];
                const lanes *row = row_of(s->factor, first + c) + first;
                for (size_t e = 0; e < c; e++)
                    one -= own[first + e] * row[e];
                own[first + c] =
                    first + c < i ? WHERE(inverse[first + c] > 0, one * inverse[first + c]) : one;
            }
        }
        if (i < s->d)
            root_of(&own[i], &inverse[i], &rank);
    }
    s->rank = rank;
    s->left = row_of(s->factor, s->d)[s->d];
}

/* The inverse of the first d rows of the factor, with zeros for its columns of zeros and above
 * the diagonal. */
CLONES
static void invert(systems *s) {
    const lanes *inverses = s->column;
    for (size_t i = 0; i < s->d; i++) {
        lanes *restrict own = row_of(s->inverse, i), by = -inverses[i];
        const lanes *row = row_of(s->factor, i);
        for (size_t first = 0; first <= i; first += BLOCK) {
            lanes sums[BLOCK] = {{0}, {0}, {0}, {0}};
            const lanes *former = row_of(s->inverse, first) + first;
            for (size_t k = first; k < i; k++) {
#pragma GCC unroll 4
                for (size_t c = 0; c < BLOCK; c++)
                    sums[c] += row[k] * former[c];
                former += (k / BLOCK + 1) * BLOCK;
            }
#pragma GCC unroll 4
            for (size_t c = 0; c < BLOCK; c++)
                own[first + c] = sums[c] * by;
        }
        own[i] = -by;
    }
}

/* The coefficients and the intercepts, of factors whose last row is the label's. */
CLONES
static void solve(systems *s) {
    lanes *restrict coef = s->coef;
    memcpy(coef, row_of(s->factor, s->d), s->d * sizeof *coef);
    s->intercept = s->mean[s->d];
    for (size_t i = s->d; i-- > 0;) {
        const lanes *row = row_of(s->factor, i);
        lanes one = WHERE(row[i] > 0, coef[i] / row[i]);
        for (size_t j = 0; j < i; j++)
            coef[j] -= one * row[j];
        coef[i] = WHERE(one != 0, one * s->scale[s->d] / s->scale[i]);
        s->intercept -= coef[i] * s->mean[i];
    }
}

/* The factors of standard errors by the variance of a label. */
CLONES
static void add_shares(systems *s) {
    invert(s);
    lanes *restrict share = s->share, *restrict ratio = s->column;
    memset(share, 0, s->d * sizeof *share);
    for (size_t j = 0; j < s->d; j++)
        ratio[j] = WHERE(s->scale[j] > 0, s->mean[j] / s->scale[j]);
    s->all = (lanes){0};
    s->known = ONES;
    for (size_t i = 0; i < s->d; i++) {
        const lanes *row = row_of(s->inverse, i);
        lanes of_means = {0};
        for (size_t j = 0; j <= i; j++) {
            share[j] += row[j] * row[j];
            of_means += row[j] * ratio[j];
        }
        s->all += of_means * of_means;
    }
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
                              .spread = none};
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

static bool are_finite(const lanes *x, size_t n, int l) {
    double nothing = 0;
    for (size_t i = 0; i < n; i++)
        nothing += x[i][l] * 0;
    return nothing == 0;
}

/* Standard errors by the variance of a label; of what is not determined NaN. */
static void put_errors(const systems *s, int l, double variance, double *out) {
    *out++ = sqrt(variance * (s->all[l] + 1 / s->moments[l]->weight));
    for (size_t j = 0; j < s->d; j++) {
        bool determined = s->share[j][l] > 0;
        out[j] = determined ? sqrt(variance * s->share[j][l]) / s->scale[j][l] : NAN;
    }
}

/* Where the next lists begin. */
typedef struct ends {
    double *coef, *std_err;
} ends;

/* Writes the answer of system l into model i. The offsets of its lists become their lengths. */
static void put(tusk_fits *f, const systems *s, int l, uint32_t i, ends *to) {
    double rank = s->rank[l], varying = s->varying[l], weight = s->moments[l]->weight,
           scale = s->scale[s->d][l];
    double squares = fmax(s->left[l], 0) * scale * scale, freedom = weight - rank - 1;
    double loss = squares / (2 * weight);
    if (!are_finite(s->scale, s->d + 1, l) || !are_finite(s->coef, s->d, l) ||
        !isfinite(s->intercept[l]) || !isfinite(loss)) {
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
    lanes *at = (lanes *)room,
          **arrays[] = {&s.coef, &s.scale, &s.share, &s.mean, &s.column, &s.by};
    for (int i = 0; i < 6; i++, at += width)
        *arrays[i] = at;
    s.factor = at;
    s.inverse = at + tusk_product_row(width);
    return s;
}

/* Fits n models, which are named; the last one fills the systems that are left. */
static void fit(tusk_fits *f, systems *s, const tusk_moments *const *moments,
                const uint32_t *models, uint32_t n, ends *to) {
    for (uint32_t l = 0; l < LANES; l++)
        s->moments[l] = moments[models[l < n ? l : n - 1]];
    measure(s);
    correlate(s);
    factorize(s);
    solve(s);
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
