/* Margins of dense neural nets.
 *
 * The coefficients of a net are d, the number of its inputs; L, the number of its layers; the
 * activation (0: max(0, z), 1: tanh z, 2: z P(z) with the normal distribution P); the units of
 * each layer, the last of which are the margins; and then of each layer, of each of its units, the
 * bias and the weight of each input.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../kvstore/mapped/clones.h"
#include "../models/margins.h"

enum { INPUTS, LAYERS, ACTIVATION, FIRST_LAYER };
enum { RELU, TANH, GELU, ACTIVATIONS };
#define MOST_LAYERS 9
#define MOST_UNITS 16777216.0 /* 2^24: sizes of layers multiply without overflow */
#define ROWS 8                /* rows that go through a net side by side */
#define NARROW 256            /* units of a layer up to which its values are on the stack */

static bool refuse(char *sentence) {
    snprintf(sentence, TUSK_SENTENCE,
             "the coefficients of the model are not the weights of its layers");
    return false;
}

static bool is_count(double x, double least, double most) {
    return x >= least && x <= most && x == (double)(uint64_t)x;
}

bool tusk_check_net(const tusk_weight *coef, uint64_t n, uint64_t outputs, char *sentence) {
    if (n < FIRST_LAYER || !is_count(coef[INPUTS], 1, MOST_UNITS) ||
        !is_count(coef[LAYERS], 1, MOST_LAYERS) ||
        !is_count(coef[ACTIVATION], 0, ACTIVATIONS - 1) ||
        n - FIRST_LAYER < (uint64_t)coef[LAYERS])
        return refuse(sentence);
    uint64_t layers = (uint64_t)coef[LAYERS], in = (uint64_t)coef[INPUTS], weights = 0;
    for (uint64_t l = 0; l < layers; l++) {
        if (!is_count(coef[FIRST_LAYER + l], 1, MOST_UNITS))
            return refuse(sentence);
        uint64_t out = (uint64_t)coef[FIRST_LAYER + l];
        weights += out * (in + 1);
        in = out;
    }
    return (in == outputs && n == FIRST_LAYER + layers + weights) || refuse(sentence);
}

/* z = b + W a of ROWS rows; a is (in, ROWS) and z (out, ROWS). Every row is summed in the same
 * order, so its margin does not depend on the rows around it. */
CLONES static void layer_sums(const tusk_weight *w, const double *a, uint64_t in, uint64_t out,
                              double *z) {
    for (uint64_t j = 0; j < out; j++, w += in + 1, z += ROWS) {
        double sum[ROWS];
        for (int i = 0; i < ROWS; i++)
            sum[i] = w[0];
        for (uint64_t k = 0; k < in; k++)
            for (int i = 0; i < ROWS; i++)
                sum[i] += w[1 + k] * a[k * ROWS + i];
        memcpy(z, sum, sizeof sum);
    }
}

static void activate(int activation, double *z, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (activation == RELU)
            z[i] = z[i] < 0 ? 0 : z[i];
        else if (activation == TANH)
            z[i] = tanh(z[i]);
        else
            z[i] *= 0.5 * erfc(-z[i] * M_SQRT1_2);
}

/* The values of two layers, each (most units, ROWS). */
struct values {
    double *of[2], *taken;
    double narrow[2 * NARROW * ROWS];
};

static bool take(struct values *v, const tusk_weight *coef, char *sentence) {
    uint64_t most = (uint64_t)coef[INPUTS];
    for (uint64_t l = 0; l < (uint64_t)coef[LAYERS]; l++)
        if (coef[FIRST_LAYER + l] > (double)most)
            most = (uint64_t)coef[FIRST_LAYER + l];
    v->taken = most > NARROW ? malloc(2 * most * ROWS * sizeof(double)) : NULL;
    if (most > NARROW && !v->taken) {
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    v->of[0] = v->taken ? v->taken : v->narrow;
    v->of[1] = v->of[0] + most * ROWS;
    return true;
}

/* Writes up to ROWS rows side by side, and rows of zeros beside fewer. */
static void side_by_side(const void *x, bool f64, uint64_t d, uint64_t rows, double *out) {
    memset(out, 0, d * ROWS * sizeof *out);
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t k = 0; k < d; k++)
            out[k * ROWS + i] =
                f64 ? ((const tusk_weight *)x)[i * d + k] : ((const float *)x)[i * d + k];
}

/* The margins of up to ROWS rows, (outputs, ROWS), in one of the values. A row with a missing
 * feature has none: its weights may all be 0, so they do not say so. */
static double *forward(const tusk_scorer *s, const void *x, bool f64, uint64_t rows,
                       struct values *v) {
    const tusk_weight *coef = s->coef;
    uint64_t layers = (uint64_t)coef[LAYERS], in = (uint64_t)coef[INPUTS];
    const tusk_weight *w = coef + FIRST_LAYER + layers;
    double missing[ROWS] = {0};
    side_by_side(x, f64, in, rows, v->of[0]);
    for (uint64_t k = 0; k < in * ROWS; k++)
        missing[k % ROWS] += 0 * v->of[0][k];
    double *z = v->of[0];
    for (uint64_t l = 0; l < layers; l++) {
        uint64_t out = (uint64_t)coef[FIRST_LAYER + l];
        double *next = z == v->of[0] ? v->of[1] : v->of[0];
        layer_sums(w, z, in, out, next);
        if (l + 1 < layers)
            activate((int)coef[ACTIVATION], next, out * ROWS);
        w += out * (in + 1);
        in = out;
        z = next;
    }
    for (uint64_t k = 0; k < in * ROWS; k++)
        z[k] += missing[k % ROWS];
    return z;
}

static bool check_width(const tusk_scorer *s, uint64_t d, char *sentence) {
    if (d == (uint64_t)s->coef[INPUTS])
        return true;
    snprintf(sentence, TUSK_SENTENCE, "the model has %llu features, row has %llu",
             (unsigned long long)s->coef[INPUTS], (unsigned long long)d);
    return false;
}

/* The likeliest of several classes, or its place; a margin that is not a number has none. */
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
    if (!check_width(s, d, sentence) || !take(&v, s->coef, sentence))
        return false;
    size_t size = d * (f64 ? sizeof(double) : sizeof(float));
    for (uint64_t at = 0; at < n; at += ROWS) {
        uint64_t rows = n - at < ROWS ? n - at : ROWS;
        const double *m = forward(s, (const char *)x + at * size, f64, rows, &v);
        for (uint64_t i = 0; i < rows; i++)
            out[at + i] = s->labels ? best_of(s, m + i) : m[i];
    }
    free(v.taken);
    return true;
}

bool tusk_net_shares(tusk_scorer *s, const void *x, bool f64, uint64_t d, double *out,
                     char *sentence) {
    struct values v;
    if (!check_width(s, d, sentence) || !take(&v, s->coef, sentence))
        return false;
    const double *m = forward(s, x, f64, 1, &v);
    for (uint64_t k = 0; k < s->n_classes; k++)
        out[k] = m[k * ROWS];
    tusk_to_shares(out, s->n_classes);
    free(v.taken);
    return true;
}

/* A sparse row is written out; shares: whether all probabilities are wanted. */
bool tusk_net_of_sparse(tusk_scorer *s, const tusk_sparse_row *row, bool f64, bool shares,
                        double *out, char *sentence) {
    uint64_t d = (uint64_t)s->coef[INPUTS];
    double narrow[NARROW];
    double *whole = d <= NARROW ? narrow : malloc(d * sizeof *whole);
    if (!whole) {
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    bool done = tusk_spread(row, f64, d, whole, sentence) &&
                (shares ? tusk_net_shares(s, whole, true, d, out, sentence)
                        : tusk_net_margins(s, whole, true, d, 1, out, sentence));
    if (whole != narrow)
        free(whole);
    return done;
}
