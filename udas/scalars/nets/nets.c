/* Margins of dense neural nets. The coefficients of a net are d, the number of its features; L,
 * the number of its layers; the activation (0: max(0, z), 1: tanh z, 2: z P(z) with the normal
 * distribution P), plus 16 if categories are embedded; the units of each layer, the last of
 * which are the margins; the tables of tables.h for embedded categories; and then for each unit
 * of each layer the bias and the weight of each input. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../kvstore/mapped/clones.h"
#include "../exponential.h"
#include "../models/margins.h"
#include "net.h"

#define ROWS 8     /* rows that go through a net together */
#define UNITS 4    /* units that are summed together */
#define NARROW 256 /* units of a layer up to which its values are on the stack */

typedef double lanes __attribute__((vector_size(ROWS * sizeof(double))));

static bool refuse(char *sentence) {
    snprintf(sentence, TUSK_SENTENCE,
             "the coefficients of the model are not the weights of its layers");
    return false;
}

bool tusk_check_net(const tusk_weight *coef, uint64_t n, uint64_t outputs, char *sentence) {
    tusk_net_tables tables;
    if (n < TUSK_NET_HEAD || !tusk_is_count(coef[TUSK_NET_FEATURES], 1, TUSK_NET_MOST) ||
        !tusk_is_count(coef[TUSK_NET_LAYERS], 1, TUSK_NET_MOST_LAYERS) ||
        !tusk_is_count(coef[TUSK_NET_KIND], 0, TUSK_NET_EMBEDS + TUSK_ACTIVATIONS - 1) ||
        tusk_net_activation(coef) >= TUSK_ACTIVATIONS ||
        n - TUSK_NET_HEAD < (uint64_t)coef[TUSK_NET_LAYERS] ||
        !tusk_net_check_tables(coef, n, &tables))
        return refuse(sentence);
    uint64_t layers = (uint64_t)coef[TUSK_NET_LAYERS], in = tables.inputs, weights = 0;
    for (uint64_t l = 0; l < layers; l++) {
        if (!tusk_is_count(coef[TUSK_NET_HEAD + l], 1, TUSK_NET_MOST))
            return refuse(sentence);
        uint64_t out = (uint64_t)coef[TUSK_NET_HEAD + l];
        weights += out * (in + 1);
        in = out;
    }
    return (in == outputs && n == tables.end + weights) || refuse(sentence);
}

/* z = b + W a of ROWS rows; a is (in, ROWS) and z (out, ROWS). Every row is summed in the same
 * order, so its margin does not depend on the rows around it. */
CLONES static void layer_sums(const tusk_weight *w, const double *a, uint64_t in, uint64_t out,
                              double *z) {
    uint64_t j = 0, width = in + 1;
    for (; j + UNITS <= out; j += UNITS, w += UNITS * width, z += UNITS * ROWS) {
        lanes sum[UNITS];
        for (int u = 0; u < UNITS; u++)
            sum[u] = (lanes){0} + w[(uint64_t)u * width];
        for (uint64_t k = 0; k < in; k++) {
            lanes row;
            memcpy(&row, a + k * ROWS, sizeof row);
            for (int u = 0; u < UNITS; u++)
                sum[u] += w[(uint64_t)u * width + 1 + k] * row;
        }
        memcpy(z, sum, sizeof sum);
    }
    for (; j < out; j++, w += width, z += ROWS) {
        lanes sum = (lanes){0} + w[0], row;
        for (uint64_t k = 0; k < in; k++) {
            memcpy(&row, a + k * ROWS, sizeof row);
            sum += w[1 + k] * row;
        }
        memcpy(z, &sum, sizeof sum);
    }
}

/* tanh |z| = (1 - t) / (1 + t) with t = exp(-2 |z|). */
CLONES static void to_tanh(double *z, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        double t = tusk_exp_of_negative(-2 * __builtin_fabs(z[i]));
        z[i] = __builtin_copysign((1 - t) / (1 + t), z[i]);
    }
}

static void activate(int activation, double *z, uint64_t n) {
    if (activation == TUSK_TANH)
        to_tanh(z, n);
    else if (activation == TUSK_RELU)
        for (uint64_t i = 0; i < n; i++)
            z[i] = z[i] < 0 ? 0 : z[i];
    else
        for (uint64_t i = 0; i < n; i++)
            z[i] *= 0.5 * erfc(-z[i] * M_SQRT1_2);
}

/* The values of two layers, each (most units, ROWS). */
struct values {
    double *of[2], *taken;
    double narrow[2 * NARROW * ROWS];
};

static bool take(struct values *v, const tusk_weight *coef, uint64_t inputs, char *sentence) {
    uint64_t most = inputs;
    for (uint64_t l = 0; l < (uint64_t)coef[TUSK_NET_LAYERS]; l++)
        if (coef[TUSK_NET_HEAD + l] > (double)most)
            most = (uint64_t)coef[TUSK_NET_HEAD + l];
    v->taken = most > NARROW ? malloc(2 * most * ROWS * sizeof(double)) : NULL;
    if (most > NARROW && !v->taken) {
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    v->of[0] = v->taken ? v->taken : v->narrow;
    v->of[1] = v->of[0] + most * ROWS;
    return true;
}

static double number(const void *x, bool f64, uint64_t k) {
    return f64 ? ((const tusk_weight *)x)[k] : (double)((const float *)x)[k];
}

/* Transposes up to ROWS rows of n numbers, padded with rows of zeros. */
static void side_by_side(const void *x, bool f64, const tusk_net_tables *t, uint64_t rows,
                         double *out) {
    memset(out, 0, t->inputs * ROWS * sizeof *out);
    uint64_t d = t->features;
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t k = 0; k < d; k++) {
            double value = number(x, f64, i * d + k);
            if (t->n)
                tusk_net_put(t, k, value, out + i, ROWS);
            else
                out[k * ROWS + i] = value;
        }
}

/* The margins of the rows in the first values, (outputs, ROWS), in either buffer. A row with a
 * missing feature has NaN, set separately: its weights may all be 0. */
static double *forward(const tusk_scorer *s, const tusk_net_tables *t, struct values *v) {
    const tusk_weight *coef = s->coef, *w = coef + t->end;
    uint64_t layers = (uint64_t)coef[TUSK_NET_LAYERS], in = t->inputs;
    double missing[ROWS] = {0};
    for (uint64_t k = 0; k < in * ROWS; k++)
        missing[k % ROWS] += 0 * v->of[0][k];
    double *z = v->of[0];
    for (uint64_t l = 0; l < layers; l++) {
        uint64_t out = (uint64_t)coef[TUSK_NET_HEAD + l];
        double *next = z == v->of[0] ? v->of[1] : v->of[0];
        layer_sums(w, z, in, out, next);
        if (l + 1 < layers)
            activate(tusk_net_activation(coef), next, out * ROWS);
        w += out * (in + 1);
        in = out;
        z = next;
    }
    for (uint64_t k = 0; k < in * ROWS; k++)
        z[k] += missing[k % ROWS];
    return z;
}

static bool check_width(const tusk_scorer *s, uint64_t d, char *sentence) {
    if (d == (uint64_t)s->coef[TUSK_NET_FEATURES])
        return true;
    snprintf(sentence, TUSK_SENTENCE, "the model has %llu features, row has %llu",
             (unsigned long long)s->coef[TUSK_NET_FEATURES], (unsigned long long)d);
    return false;
}

/* The likeliest of several classes, or its index; NaN if a margin is NaN. */
static double best_of(const tusk_scorer *s, const double *m) {
    uint64_t best = 0;
    for (uint64_t k = 0; k < s->n_classes; k++) {
        if (m[k * ROWS] != m[k * ROWS])
            return NAN;
        if (m[k * ROWS] > m[best * ROWS])
            best = k;
    }
    return s->places ? (double)(best + 1) : s->labels[best];
}

bool tusk_net_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n, double *out,
                      char *sentence) {
    struct values v;
    tusk_net_tables t = tusk_net_tables_of(s->coef);
    if (!check_width(s, d, sentence) || !take(&v, s->coef, t.inputs, sentence))
        return false;
    size_t size = d * (f64 ? sizeof(double) : sizeof(float));
    for (uint64_t at = 0; at < n; at += ROWS) {
        uint64_t rows = n - at < ROWS ? n - at : ROWS;
        side_by_side((const char *)x + at * size, f64, &t, rows, v.of[0]);
        const double *m = forward(s, &t, &v);
        for (uint64_t i = 0; i < rows; i++)
            out[at + i] = s->labels ? best_of(s, m + i) : m[i];
    }
    free(v.taken);
    return true;
}

/* The result of one row: its margin or class, or all probabilities. */
static void answer(const tusk_scorer *s, const double *m, bool shares, double *out) {
    if (!shares) {
        *out = s->labels ? best_of(s, m) : *m;
        return;
    }
    for (uint64_t k = 0; k < s->n_classes; k++)
        out[k] = m[k * ROWS];
    tusk_to_shares(out, s->n_classes);
}

bool tusk_net_shares(tusk_scorer *s, const void *x, bool f64, uint64_t d, double *out,
                     char *sentence) {
    struct values v;
    tusk_net_tables t = tusk_net_tables_of(s->coef);
    if (!check_width(s, d, sentence) || !take(&v, s->coef, t.inputs, sentence))
        return false;
    side_by_side(x, f64, &t, 1, v.of[0]);
    answer(s, forward(s, &t, &v), true, out);
    free(v.taken);
    return true;
}

/* Scores a sparse row; shares: all probabilities instead of the margin. */
static bool score_sparse(tusk_scorer *s, const tusk_sparse_row *row, bool f64, bool shares,
                         double *out, char *sentence) {
    struct values v;
    tusk_net_tables t = tusk_net_tables_of(s->coef);
    if (!tusk_check_pairs(row, sentence) || !tusk_check_ids(row, sentence))
        return false;
    if (!take(&v, s->coef, t.inputs, sentence))
        return false;
    memset(v.of[0], 0, t.inputs * ROWS * sizeof(double));
    for (uint64_t i = 0; i < row->n_ids; i++) {
        uint64_t id = (uint64_t)tusk_id_at(row, i);
        if (id < t.features)
            tusk_net_put(&t, id, number(row->values, f64, i), v.of[0], ROWS);
    }
    answer(s, forward(s, &t, &v), shares, out);
    free(v.taken);
    return true;
}

bool tusk_net_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                            char *sentence) {
    return score_sparse(s, row, f64, false, out, sentence);
}

bool tusk_net_sparse_shares(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                            char *sentence) {
    return score_sparse(s, row, f64, true, out, sentence);
}
