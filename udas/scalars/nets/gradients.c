/* Contributions of features to the margins of nets by integrated gradients (Sundararajan, Taly
 * and Yan, Axiomatic Attribution for Deep Networks, ICML 2017): of feature j
 *     x_j times the integral over 0 <= t <= 1 of dm/dx_j at t x.
 * They add up to the margin less the base value, the margin of the row whose features are all 0.
 *
 * With max(0, z) gradients are constant between the points of the path where a unit begins or
 * ceases to act, which are found one after the other, so the integral is exact. With other
 * activations it is by Gauss' rule over panels, which are halved until the gradients of each add
 * up to the change of the margins. What rounding leaves is shared out by the contributions' sizes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../explaining/contributions.h"
#include "net.h"

#define ROWS 8          /* Gauss' points */
#define HALVINGS 20     /* of a panel */
#define CLOSE 1e-10     /* of the largest margin: the gap of a panel that is good */
#define MOST_PANELS 512 /* of a path */
#define MOST_KINKS 4096 /* of a path */
#define NEAR 1e-13      /* kinks that are one */

static const double POINTS[ROWS] = {-0.9602898564975363, -0.7966664774136267, -0.5255324099163290,
                                    -0.1834346424956498, 0.1834346424956498,  0.5255324099163290,
                                    0.7966664774136267,  0.9602898564975363};
static const double SHARES[ROWS] = {0.1012285362903763, 0.2223810344533745, 0.3137066458778873,
                                    0.3626837833783620, 0.3626837833783620, 0.3137066458778873,
                                    0.2223810344533745, 0.1012285362903763};

/* A row's path. Arrays of units are (units, columns), with a column for each point. */
struct path {
    tusk_net_tables t;
    int activation;
    uint64_t layers, margins, units[TUSK_NET_MOST_LAYERS + 1]; /* units[0]: the inputs */
    const tusk_weight *weights[TUSK_NET_MOST_LAYERS];
    double *room, *row; /* row: the inputs at the end of the path */
    double *values[TUSK_NET_MOST_LAYERS + 1], *slopes[TUSK_NET_MOST_LAYERS + 1];
    double *gradients[2]; /* of two layers */
    double *part;         /* of gradients over a panel, (margins, inputs) */
    double *integrals;    /* of gradients, (margins, inputs) */
    double *ends;         /* margins at ends of panels, (HALVINGS + 3, margins) */
    double scale;         /* the largest margin in size at the ends of the path */
    int panels;
};

static bool open_path(const tusk_scorer *s, struct path *p, char *sentence) {
    const tusk_weight *coef = s->coef;
    p->t = tusk_net_tables_of(coef);
    p->activation = tusk_net_activation(coef);
    p->layers = (uint64_t)coef[TUSK_NET_LAYERS];
    p->margins = s->labels ? s->n_classes : 1;
    p->units[0] = p->t.inputs;
    uint64_t most = p->t.inputs, sum = p->t.inputs;
    const tusk_weight *w = coef + p->t.end;
    for (uint64_t l = 1; l <= p->layers; l++) {
        p->units[l] = (uint64_t)coef[TUSK_NET_HEAD + l - 1];
        p->weights[l - 1] = w;
        w += p->units[l] * (p->units[l - 1] + 1);
        sum += p->units[l];
        most = p->units[l] > most ? p->units[l] : most;
    }
    uint64_t size =
        2 * ROWS * (sum + most) + p->t.inputs * (1 + 2 * p->margins) + (HALVINGS + 3) * p->margins;
    double *room = p->room = calloc(size, sizeof *room);
    if (!room) {
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    for (uint64_t l = 0; l <= p->layers; l++) {
        p->values[l] = room;
        p->slopes[l] = room += ROWS * p->units[l];
        room += ROWS * p->units[l];
    }
    p->gradients[0] = room;
    p->gradients[1] = room += ROWS * most;
    p->row = room += ROWS * most;
    p->part = room += p->t.inputs;
    p->integrals = room += p->margins * p->t.inputs;
    p->ends = room + p->margins * p->t.inputs;
    return true;
}

/* The value and the slope of an activation at z. */
static inline double activate(int activation, double z, double *slope) {
    if (activation == TUSK_RELU) {
        *slope = z > 0;
        return z > 0 ? z : 0;
    }
    if (activation == TUSK_TANH) {
        double value = tanh(z);
        *slope = 1 - value * value;
        return value;
    }
    double below = 0.5 * erfc(-z * M_SQRT1_2);
    *slope = below + z * exp(-0.5 * z * z) * (0.5 * M_SQRT1_2 * M_2_SQRTPI);
    return z * below;
}

/* z = b + W a for each of n columns. */
static inline void layer_sums(const tusk_weight *w, const double *a, uint64_t in, uint64_t out,
                              uint64_t n, bool biased, double *z) {
    for (uint64_t j = 0; j < out; j++, w += in + 1, z += n) {
        for (uint64_t c = 0; c < n; c++)
            z[c] = biased ? w[0] : 0;
        for (uint64_t k = 0; k < in; k++)
            for (uint64_t c = 0; c < n; c++)
                z[c] += w[1 + k] * a[k * n + c];
    }
}

/* The values and slopes of all layers at n points; the last values are the margins. */
static inline void pass_forward(struct path *p, const double *points, uint64_t n) {
    for (uint64_t k = 0; k < p->units[0]; k++)
        for (uint64_t c = 0; c < n; c++)
            p->values[0][k * n + c] = points[c] * p->row[k];
    for (uint64_t l = 1; l <= p->layers; l++) {
        double *z = p->values[l];
        layer_sums(p->weights[l - 1], p->values[l - 1], p->units[l - 1], p->units[l], n, true, z);
        for (uint64_t k = 0; l < p->layers && k < p->units[l] * n; k++)
            z[k] = activate(p->activation, z[k], &p->slopes[l][k]);
    }
}

/* The gradient of a margin by the inputs, (inputs, n), after pass_forward. */
static inline const double *pass_backward(struct path *p, uint64_t margin, uint64_t n) {
    double *g = p->gradients[0], *next = p->gradients[1];
    uint64_t last = p->layers - 1;
    const tusk_weight *w = p->weights[last] + margin * (p->units[last] + 1);
    for (uint64_t k = 0; k < p->units[last]; k++)
        for (uint64_t c = 0; c < n; c++)
            g[k * n + c] = w[1 + k];
    for (uint64_t l = last; l > 0; l--) {
        uint64_t in = p->units[l - 1], out = p->units[l];
        memset(next, 0, in * n * sizeof *next);
        w = p->weights[l - 1];
        for (uint64_t j = 0; j < out; j++, w += in + 1) {
            for (uint64_t c = 0; c < n; c++)
                g[j * n + c] *= p->slopes[l][j * n + c];
            for (uint64_t k = 0; k < in; k++)
                for (uint64_t c = 0; c < n; c++)
                    next[k * n + c] += w[1 + k] * g[j * n + c];
        }
        double *held = g;
        g = next;
        next = held;
    }
    return g;
}

static void margins_at(struct path *p, double point, double *margins) {
    pass_forward(p, &point, 1);
    memcpy(margins, p->values[p->layers], p->margins * sizeof *margins);
}

/* Adds the integrals over a panel between the margins `from` and `to`, with halvings left. */
static void add_panel(struct path *p, double begin, double end, const double *from,
                      const double *to, int left) {
    double points[ROWS], half = (end - begin) / 2, gap = 0;
    uint64_t inputs = p->units[0];
    for (int c = 0; c < ROWS; c++)
        points[c] = begin + half * (1 + POINTS[c]);
    pass_forward(p, points, ROWS);
    for (uint64_t m = 0; m < p->margins; m++) {
        const double *g = pass_backward(p, m, ROWS);
        double change = 0, *part = p->part + m * inputs;
        for (uint64_t k = 0; k < inputs; k++) {
            double sum = 0;
            for (int c = 0; c < ROWS; c++)
                sum += SHARES[c] * g[k * ROWS + c];
            part[k] = half * sum;
            change += part[k] * p->row[k];
        }
        gap = fmax(gap, fabs(change - (to[m] - from[m])));
    }
    if (gap <= CLOSE * p->scale || !left || ++p->panels > MOST_PANELS) {
        for (uint64_t k = 0; k < p->margins * inputs; k++)
            p->integrals[k] += p->part[k];
        return;
    }
    double middle = begin + half, *at = p->ends + (2 + left) * p->margins;
    margins_at(p, middle, at);
    add_panel(p, begin, middle, from, at, left - 1);
    add_panel(p, middle, end, at, to, left - 1);
}

/* The next point of the path after `point` at which a unit of max(0, z) begins or ceases to act,
 * at most 1. Slopes have the speeds at which the units' values change. */
static double next_kink(struct path *p, double point) {
    double kink = 1;
    for (uint64_t k = 0; k < p->units[0]; k++) {
        p->values[0][k] = point * p->row[k];
        p->slopes[0][k] = p->row[k];
    }
    for (uint64_t l = 1; l < p->layers; l++) {
        uint64_t in = p->units[l - 1], out = p->units[l];
        double *z = p->values[l], *speed = p->slopes[l];
        layer_sums(p->weights[l - 1], p->values[l - 1], in, out, 1, true, z);
        layer_sums(p->weights[l - 1], p->slopes[l - 1], in, out, 1, false, speed);
        for (uint64_t k = 0; k < out; k++) {
            double at = z[k] * speed[k] < 0 ? point - z[k] / speed[k] : 1;
            kink = at > point + NEAR && at < kink ? at : kink;
            bool acts =
                z[k] + NEAR * speed[k] > 0; /* just behind the point, which may be a kink */
            z[k] = acts ? z[k] : 0;
            speed[k] = acts ? speed[k] : 0;
        }
    }
    return kink;
}

/* Adds the integrals between the kinks of a net of max(0, z). */
static void add_pieces(struct path *p) {
    double begin = 0;
    uint64_t inputs = p->units[0];
    for (int piece = 0; begin < 1; piece++) {
        double end = piece < MOST_KINKS ? next_kink(p, begin) : 1, middle = (begin + end) / 2;
        pass_forward(p, &middle, 1);
        for (uint64_t m = 0; m < p->margins; m++) {
            const double *g = pass_backward(p, m, 1);
            for (uint64_t k = 0; k < inputs; k++)
                p->integrals[m * inputs + k] += (end - begin) * g[k];
        }
        begin = end;
    }
}

/* Contributions to a margin by the integrals of its gradient; their sum is made `total`. */
static void write_contributions(const struct path *p, const double *x, const double *gradient,
                                double total, double *out) {
    double sum = 0, sizes = 0;
    for (uint64_t j = 0; j < p->t.features; j++) {
        out[j] = x[j] != 0 ? x[j] * tusk_net_product(&p->t, j, gradient) : 0;
        sum += out[j];
        sizes += fabs(out[j]);
    }
    for (uint64_t j = 0; sizes > 0 && j < p->t.features; j++)
        out[j] += (total - sum) * (fabs(out[j]) / sizes);
}

uint64_t tusk_net_features(const tusk_scorer *s) {
    return (uint64_t)s->coef[TUSK_NET_FEATURES];
}

bool tusk_net_contributions(const tusk_scorer *s, const double *x, double *out, char *sentence) {
    struct path p = {.scale = 0};
    if (!open_path(s, &p, sentence))
        return false;
    uint64_t d = p.t.features, inputs = p.units[0];
    double finite = 0, *first = p.ends, *last = p.ends + p.margins;
    for (uint64_t j = 0; j < d; j++) {
        finite += 0 * x[j]; /* NaN: a feature is missing, and there is no margin */
        tusk_net_put(&p.t, j, x[j], p.row, 1);
    }
    margins_at(&p, 0, first);
    margins_at(&p, 1, last);
    for (uint64_t m = 0; m < p.margins; m++)
        p.scale = fmax(p.scale, fmax(fabs(first[m]), fabs(last[m])));
    if (finite == 0 && p.activation == TUSK_RELU)
        add_pieces(&p);
    else if (finite == 0)
        add_panel(&p, 0, 1, first, last, HALVINGS);
    for (uint64_t m = 0; m < p.margins; m++, out += d + 1) {
        out[0] = first[m];
        write_contributions(&p, x, p.integrals + m * inputs, last[m] - first[m], out + 1);
        for (uint64_t j = 0; j < d; j++)
            out[1 + j] += finite;
    }
    free(p.room);
    return true;
}
