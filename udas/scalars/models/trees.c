/* Margins of boosted trees.
 *
 * The coefficients of a model of trees are d, the number of features; T, the number of trees; the
 * number of nodes of each tree; and then the nodes, tree by tree in preorder, five numbers each:
 * feature (-1: a leaf), value, right child, gain, rows. The value is the threshold of a split, up
 * to which rows go left, or what a leaf adds to the margin. The left child is the next node, and
 * the right child is counted from the root of its tree.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "margins.h"

enum { FEATURE, VALUE, RIGHT, GAIN, ROWS, NODE };
enum { FEATURES, TREES, FIRST_TREE };
#define MOST 4503599627370496.0 /* 2^52: a count above this is no count */

static bool refuse(char *sentence) {
    snprintf(sentence, TUSK_SENTENCE,
             "the coefficients of the model are not the nodes of its trees");
    return false;
}

static bool is_count(double x, uint64_t most) {
    return x >= 0 && x <= (double)most && x == (double)(uint64_t)x;
}

bool tusk_check_trees(const tusk_weight *coef, uint64_t n, char *sentence) {
    if (n < FIRST_TREE || !is_count(coef[FEATURES], (uint64_t)MOST) ||
        !is_count(coef[TREES], n - FIRST_TREE))
        return refuse(sentence);
    uint64_t trees = (uint64_t)coef[TREES], left = (n - FIRST_TREE - trees) / NODE, nodes = 0;
    for (uint64_t t = 0; t < trees; t++) {
        if (!is_count(coef[FIRST_TREE + t], left - nodes) || coef[FIRST_TREE + t] < 1)
            return refuse(sentence);
        nodes += (uint64_t)coef[FIRST_TREE + t];
    }
    return FIRST_TREE + trees + nodes * NODE == n || refuse(sentence);
}

/* Adds what a tree of n nodes says of a row of d features. False if a node points at none: then
 * the walk ends, since children come behind their parents. */
#define DEFINE_WALK(name, T)                                                                      \
    static bool name(const tusk_weight *nodes, uint64_t n, const T *x, uint64_t d, double *sum) { \
        uint64_t at = 0;                                                                          \
        for (;;) {                                                                                \
            const tusk_weight *node = nodes + at * NODE;                                          \
            double feature = node[FEATURE];                                                       \
            if (feature < 0) {                                                                    \
                *sum += node[VALUE];                                                              \
                return true;                                                                      \
            }                                                                                     \
            if (!(feature < (double)d))                                                           \
                return false;                                                                     \
            double right = node[RIGHT], next = (double)(at + 1);                                  \
            next = (double)x[(uint64_t)feature] <= node[VALUE] ? next : right;                    \
            if (!(next > (double)at && next < (double)n))                                         \
                return false;                                                                     \
            at = (uint64_t)next;                                                                  \
        }                                                                                         \
    }

DEFINE_WALK(walk_f32, float)
DEFINE_WALK(walk_f64, tusk_weight)

/* A row with a missing feature has no margin. */
static double first_margin(const void *x, bool f64, uint64_t d, double intercept) {
    double sum = 0;
    for (uint64_t k = 0; k < d; k++)
        sum += 0 * (f64 ? ((const tusk_weight *)x)[k] : ((const float *)x)[k]);
    return sum == sum ? intercept : NAN;
}

bool tusk_tree_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                       double *out, char *sentence) {
    if (d != (uint64_t)s->coef[FEATURES]) {
        snprintf(sentence, TUSK_SENTENCE, "the model has %llu features, row has %llu",
                 (unsigned long long)s->coef[FEATURES], (unsigned long long)d);
        return false;
    }
    size_t size = d * (f64 ? sizeof(double) : sizeof(float));
    for (uint64_t i = 0; i < n; i++)
        out[i] = first_margin((const char *)x + i * size, f64, d, s->intercept);
    uint64_t trees = (uint64_t)s->coef[TREES];
    const tusk_weight *nodes = s->coef + FIRST_TREE + trees;
    for (uint64_t t = 0; t < trees; t++) {
        uint64_t size_of_tree = (uint64_t)s->coef[FIRST_TREE + t];
        const char *row = x;
        for (uint64_t i = 0; i < n; i++, row += size)
            if (!(f64 ? walk_f64(nodes, size_of_tree, (const tusk_weight *)row, d, out + i)
                      : walk_f32(nodes, size_of_tree, (const float *)row, d, out + i)))
                return refuse(sentence);
        nodes += size_of_tree * NODE;
    }
    return true;
}

/* A row of up to this many features is written out on the stack. */
#define NARROW 1024

bool tusk_spread(const tusk_sparse_row *row, bool f64, uint64_t d, double *out, char *sentence) {
    memset(out, 0, d * sizeof *out);
    for (uint64_t i = 0; i < row->n_ids; i++) {
        int32_t id = row->ids[i];
        if (tusk_is_no_id(id))
            return tusk_refuse_id(id, sentence);
        if ((uint64_t)id < d)
            out[id] += f64 ? ((const double *)row->values)[i] : ((const float *)row->values)[i];
    }
    return true;
}

bool tusk_tree_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                             char *sentence) {
    uint64_t d = (uint64_t)s->coef[FEATURES];
    double narrow[NARROW];
    double *whole = d <= NARROW ? narrow : malloc(d * sizeof *whole);
    if (!whole) {
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    bool done = tusk_spread(row, f64, d, whole, sentence) &&
                tusk_tree_margins(s, whole, true, d, 1, out, sentence);
    if (whole != narrow)
        free(whole);
    return done;
}
