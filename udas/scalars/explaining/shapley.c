/* The contributions of features to the margins of boosted trees: exact path-dependent Shapley
 * values (S. Lundberg et al., From local explanations to global understanding with explainable AI
 * for trees, Nature Machine Intelligence 2, 2020, Algorithm 1 defines them).
 *
 * In the game of a leaf with value v, feature j of its path multiplies v by o_j if it is known (1:
 * the row takes all splits by j towards the leaf, 0: it does not), and otherwise by z_j, the share
 * of training rows that take them. The Shapley value of a product game is the integral of its
 * multilinear extension (G. Owen, Multilinear extensions of games, Management Science 18, 1972):
 *
 *     phi_i = v (o_i - z_i) int_0^1 prod_{j != i} f_j(t) dt,   f_j(t) = z_j + (o_j - z_j) t.
 *
 * The integrand is a polynomial, for which Gauss-Legendre quadrature with half as many nodes as
 * the path has features is exact. All factors are positive, so that nothing cancels in the
 * products, unlike in Algorithm 2, whose UNWIND subtracts. One walk of a tree serves all leaves
 * (P. Yu et al., Linear tree Shap, NeurIPS 2022): a subtree returns the sums of its leaves at each
 * node t, and an edge by feature i replaces i's former term by its new one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contributions.h"

enum { FEATURE, VALUE, RIGHT, GAIN, ROWS, MISSING, NODE };
enum { FEATURES, TREES, BASES, FIRST_BASE };
#define BY_LEVEL 2   /* the split is by a set of levels (trees.c) */
#define DEEPEST 1000 /* splits of a path; bounds the stack */

/* Effect of the splits by a feature so far on the row and on the training rows. */
typedef struct factor {
    double z, o;
} factor;

static const char NO_TREE[] = "the coefficients of the model are not the nodes of its trees";

typedef struct walk {
    const tusk_weight *nodes;
    uint64_t n; /* nodes of the tree */
    const tusk_scorer *s;
    const double *x;
    uint64_t d;
    factor *factors;   /* [d] */
    uint64_t n_points; /* of the quadrature */
    double *points, *weights;
    double *levels; /* [deepest + 1][2][n_points]: products, and sums of the subtree */
    double *out;    /* [d] */
    char *sentence;
} walk;

static bool refuse(char *sentence, const char *text) {
    snprintf(sentence, TUSK_SENTENCE, "%s", text);
    return false;
}

/* --- the shape of a tree --- */

static double rows_of(const walk *w, uint64_t at) {
    return w->nodes[at * NODE + ROWS];
}

static double rows_below(const walk *w, uint64_t at) {
    return rows_of(w, at + 1) + rows_of(w, (uint64_t)w->nodes[at * NODE + RIGHT]);
}

/* The fraction of the rows of a split in its left child; a half where no row of the training came,
 * as in some parts of CatBoost's trees. */
static double left_share(const walk *w, uint64_t at) {
    double all = rows_below(w, at);
    return all == 0 ? 0.5 : rows_of(w, at + 1) / all;
}

static bool check_rows(const walk *w, uint64_t at, uint64_t depth) {
    double share = left_share(w, at);
    bool known = depth || rows_below(w, at) != 0;
    return (known && share >= 0 && share <= 1) ||
           refuse(w->sentence, "the trees of the model do not say how many rows reached their "
                               "nodes, which contributions need");
}

/* The index after the subtree at `at`, or 0 if it is invalid; its depth and mean. A child is
 * the root of one subtree only, otherwise a forged model would have endless paths. */
static uint64_t measure(const walk *w, uint64_t at, uint64_t depth, uint64_t *deepest,
                        double *mean) {
    const tusk_weight *node = w->nodes + at * NODE;
    if (depth > DEEPEST)
        return refuse(w->sentence, "a tree of the model is deeper than 1000 splits");
    *deepest = depth > *deepest ? depth : *deepest;
    if (node[FEATURE] < 0) {
        *mean = node[VALUE];
        return at + 1;
    }
    if (!(node[FEATURE] < (double)w->d) || at + 1 >= w->n)
        return refuse(w->sentence, NO_TREE);
    double left, right;
    uint64_t middle = measure(w, at + 1, depth + 1, deepest, &left);
    if (!middle)
        return 0;
    if (middle >= w->n || node[RIGHT] != (double)middle)
        return refuse(w->sentence, NO_TREE);
    uint64_t end = measure(w, middle, depth + 1, deepest, &right);
    if (!end || !check_rows(w, at, depth))
        return 0;
    double share = left_share(w, at);
    *mean = share * left + (1 - share) * right;
    return end;
}

/* --- quadrature --- */

/* The roots of the Legendre polynomial of degree n and their weights, on [0, 1], by Newton steps
 * from Chebyshev's roots (P. Davis and P. Rabinowitz, Methods of Numerical Integration, 2.7). */
static void gauss_legendre(uint64_t n, double *points, double *weights) {
    for (uint64_t i = 0; i < n; i++) {
        double x = cos(acos(-1.0) * ((double)i + 0.75) / ((double)n + 0.5)), slope = 1;
        for (int step = 0; step < 50; step++) {
            double p = 1, before = 0;
            for (uint64_t k = 1; k <= n; k++) {
                double older = before;
                before = p;
                p = ((2 * (double)k - 1) * x * before - ((double)k - 1) * older) / (double)k;
            }
            slope = (double)n * (x * p - before) / (x * x - 1);
            x -= p / slope;
            if (fabs(p / slope) < 1e-15)
                break;
        }
        points[i] = (1 + x) / 2;
        weights[i] = 1 / ((1 - x * x) * slope * slope);
    }
}

/* --- one tree --- */

static double at_point(factor f, double t) {
    return f.z * (1 - t) + f.o * t;
}

static void visit(const walk *w, uint64_t at, uint64_t depth);

/* Descends an edge by feature `feature`, and adds the contributions of the subtree's leaves. */
static void descend(const walk *w, uint64_t feature, uint64_t child, factor next, uint64_t depth) {
    if (next.z == 0 && next.o == 0)
        return;
    uint64_t n = w->n_points;
    double *product = w->levels + depth * 2 * n, *sum = product + n;
    double *below = product + 2 * n, *below_sum = below + n;
    factor before = w->factors[feature];
    for (uint64_t q = 0; q < n; q++)
        below[q] = product[q] * (at_point(next, w->points[q]) / at_point(before, w->points[q]));
    w->factors[feature] = next;
    visit(w, child, depth + 1);
    w->factors[feature] = before;
    double told = 0;
    for (uint64_t q = 0; q < n; q++) {
        double t = w->points[q];
        double term = (next.o - next.z) / at_point(next, t);
        term -= (before.o - before.z) / at_point(before, t);
        told += w->weights[q] * below_sum[q] * term;
        sum[q] += below_sum[q];
    }
    w->out[feature] += told;
}

static void visit(const walk *w, uint64_t at, uint64_t depth) {
    const tusk_weight *node = w->nodes + at * NODE;
    uint64_t n = w->n_points;
    double *product = w->levels + depth * 2 * n, *sum = product + n;
    if (node[FEATURE] < 0) {
        for (uint64_t q = 0; q < n; q++)
            sum[q] = product[q] * node[VALUE];
        return;
    }
    for (uint64_t q = 0; q < n; q++)
        sum[q] = 0;
    uint64_t feature = (uint64_t)node[FEATURE];
    double value = w->x[feature], share = left_share(w, at);
    bool left = value == value ? value <= node[VALUE] : node[MISSING] == 1;
    if (node[MISSING] == BY_LEVEL)
        left = tusk_level_goes_left(w->s->coef, w->s->n_coef, node[VALUE], value);
    factor now = w->factors[feature];
    descend(w, feature, at + 1, (factor){now.z * share, left ? now.o : 0}, depth);
    descend(w, feature, (uint64_t)node[RIGHT], (factor){now.z * (1 - share), left ? 0 : now.o},
            depth);
}

/* --- all trees --- */

/* Adds the means of the trees to the base values; finds the deepest tree. */
static bool measure_all(walk *w, const tusk_scorer *s, uint64_t margins, uint64_t *deepest,
                        double *out) {
    uint64_t trees = (uint64_t)s->coef[TREES];
    const tusk_weight *sizes = s->coef + FIRST_BASE + (uint64_t)s->coef[BASES];
    w->nodes = sizes + trees;
    for (uint64_t t = 0; t < trees; t++, w->nodes += w->n * NODE) {
        double mean;
        w->n = (uint64_t)sizes[t];
        uint64_t end = measure(w, 0, 0, deepest, &mean);
        if (!end)
            return false;
        if (end != w->n)
            return refuse(w->sentence, NO_TREE);
        out[t % margins * (w->d + 1)] += mean;
    }
    return true;
}

static void visit_all(walk *w, const tusk_scorer *s, uint64_t margins, double *out) {
    uint64_t trees = (uint64_t)s->coef[TREES];
    const tusk_weight *sizes = s->coef + FIRST_BASE + (uint64_t)s->coef[BASES];
    w->nodes = sizes + trees;
    gauss_legendre(w->n_points, w->points, w->weights);
    for (uint64_t j = 0; j < w->d; j++)
        w->factors[j] = (factor){1, 1};
    for (uint64_t q = 0; q < w->n_points; q++)
        w->levels[q] = 1;
    for (uint64_t t = 0; t < trees; t++, w->nodes += w->n * NODE) {
        w->n = (uint64_t)sizes[t];
        w->out = out + t % margins * (w->d + 1) + 1;
        visit(w, 0, 0);
    }
}

static bool contributions_of(const tusk_scorer *s, const double *x, uint64_t d, double *out,
                             char *sentence) {
    uint64_t margins = s->labels ? s->n_classes : 1, deepest = 0;
    walk w = {.s = s, .x = x, .d = d, .sentence = sentence};
    memset(out, 0, margins * (d + 1) * sizeof *out);
    for (uint64_t k = 0; k < margins; k++)
        out[k * (d + 1)] = tusk_tree_base(s, k);
    if (!measure_all(&w, s, margins, &deepest, out))
        return false;
    uint64_t most = deepest < d ? deepest : d; /* features of a path */
    w.n_points = most ? (most + 1) / 2 : 1;
    size_t numbers = (size_t)(2 * w.n_points * (deepest + 2) + 2 * d);
    double *room = malloc(numbers * sizeof *room);
    if (!room)
        return refuse(sentence, "out of memory");
    w.factors = (factor *)room;
    w.points = room + 2 * d;
    w.weights = w.points + w.n_points;
    w.levels = w.weights + w.n_points;
    visit_all(&w, s, margins, out);
    free(room);
    return true;
}

/* Compact trees are converted to numbers first. */
bool tusk_tree_contributions(const tusk_scorer *s, const double *x, uint64_t d, double *out,
                             char *sentence) {
    if (!s->is_compact)
        return contributions_of(s, x, d, out, sentence);
    tusk_scorer whole = *s;
    whole.n_coef = tusk_compact_numbers(&s->trees);
    double *numbers = malloc(whole.n_coef * sizeof *numbers);
    if (!numbers)
        return refuse(sentence, "out of memory");
    whole.coef = (const tusk_weight *)numbers;
    whole.is_compact = false;
    bool done = tusk_compact_write(&s->trees, numbers)
                    ? contributions_of(&whole, x, d, out, sentence)
                    : refuse(sentence, NO_TREE);
    free(numbers);
    return done;
}
