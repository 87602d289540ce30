/* Margins of boosted trees.
 *
 * The coefficients of a model of trees are d, the number of features; T, the number of trees; B,
 * the number of margins before the first tree that follow, one for each of more than two classes,
 * otherwise 0; the number of nodes of each tree; and then the nodes, tree by tree in preorder, six
 * numbers each: feature (-1: a leaf), value, right child, gain, rows, missing. The value is the
 * threshold of a split, up to which rows go left, or what a leaf adds to the margin. The left
 * child is the next node, and the right child is counted from the root of its tree. Rows whose
 * feature is missing go left if `missing` is 1. With B classes, tree t adds to the margin of class
 * t % B.
 *
 * Where `missing` is 2, the feature is a category: rows whose level is in a set go left, all
 * others right. Sets are behind the nodes, and the value says how far before the end of the
 * coefficients one begins. A set has a number of words and the words, of 32 bits each, the lowest
 * for level 0.
 *
 * Payloads have the same trees in a compact form (trees/compact.h), unless it cannot hold them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../trees/walks.h"
#include "margins.h"

enum { FEATURE, VALUE, RIGHT, GAIN, ROWS, MISSING, NODE };
enum { FEATURES, TREES, BASES, FIRST_BASE };
#define BY_LEVEL 2

static bool refuse(char *sentence) {
    snprintf(sentence, TUSK_SENTENCE,
             "the coefficients of the model are not the nodes of its trees");
    return false;
}

static bool is_count(double x, uint64_t most) {
    return x >= 0 && x <= (double)most && x == (double)(uint64_t)x;
}

/* Whether n numbers are contiguous sets. */
static bool are_sets(const tusk_weight *at, uint64_t n) {
    while (n) {
        if (!is_count(*at, n - 1) || *at < 1)
            return false;
        uint64_t size = 1 + (uint64_t)*at;
        at += size;
        n -= size;
    }
    return true;
}

bool tusk_check_trees(const tusk_weight *coef, uint64_t n, uint64_t outputs, char *sentence) {
    uint64_t bases = outputs > 1 ? outputs : 0;
    if (n < FIRST_BASE + bases || !is_count(coef[FEATURES], TUSK_MOST_TREE_FEATURES) ||
        !is_count(coef[TREES], n) || coef[BASES] != (double)bases || outputs > TUSK_MOST_OUTPUTS)
        return refuse(sentence);
    uint64_t first = FIRST_BASE + bases, trees = (uint64_t)coef[TREES], nodes = 0;
    if (trees > n - first || trees % outputs)
        return refuse(sentence);
    uint64_t left = (n - first - trees) / NODE;
    for (uint64_t t = 0; t < trees; t++) {
        if (!is_count(coef[first + t], left - nodes) || coef[first + t] < 1)
            return refuse(sentence);
        nodes += (uint64_t)coef[first + t];
    }
    uint64_t used = first + trees + nodes * NODE;
    return are_sets(coef + used, n - used) || refuse(sentence);
}

bool tusk_level_goes_left(const tusk_weight *coef, uint64_t n, double from_end, double level) {
    if (!(from_end >= 1 && from_end <= (double)n))
        return false;
    uint64_t left = (uint64_t)from_end;
    const tusk_weight *set = coef + n - left;
    if (!(level >= 0 && level < 32.0 * set[0] && level < 32.0 * (double)(left - 1)))
        return false;
    uint64_t at = (uint64_t)level;
    double word = set[1 + at / 32];
    return (double)at == level && word >= 0 && word <= UINT32_MAX &&
           ((uint32_t)word >> at % 32 & 1);
}

/* The nodes of one tree, and the location of their sets. */
typedef struct tree_at {
    const tusk_weight *nodes;
    uint64_t n;
    const tusk_scorer *s;
} tree_at;

/* Adds what a tree says of a row of d features. False if a node points at none: then the walk
 * ends, since children come behind their parents. */
#define DEFINE_WALK(name, T)                                                                     \
    static bool name(const tree_at *tree, const T *x, uint64_t d, double *sum) {                 \
        uint64_t at = 0;                                                                         \
        for (;;) {                                                                               \
            const tusk_weight *node = tree->nodes + at * NODE;                                   \
            double feature = node[FEATURE];                                                      \
            if (feature < 0) {                                                                   \
                *sum += node[VALUE];                                                             \
                return true;                                                                     \
            }                                                                                    \
            if (!(feature < (double)d))                                                          \
                return false;                                                                    \
            double right = node[RIGHT], next = (double)(at + 1);                                 \
            double value = (double)x[(uint64_t)feature];                                         \
            bool left = value == value ? value <= node[VALUE] : node[MISSING] == 1;              \
            if (node[MISSING] == BY_LEVEL)                                                       \
                left = tusk_level_goes_left(tree->s->coef, tree->s->n_coef, node[VALUE], value); \
            next = left ? next : right;                                                          \
            if (!(next >= (double)(at + 1) && next < (double)tree->n))                           \
                return false;                                                                    \
            at = (uint64_t)next;                                                                 \
        }                                                                                        \
    }

DEFINE_WALK(walk_f32, float)
DEFINE_WALK(walk_f64, tusk_weight)

uint64_t tusk_tree_features(const tusk_scorer *s) {
    return s->is_compact ? s->trees.head.features : (uint64_t)s->coef[FEATURES];
}

double tusk_tree_base(const tusk_scorer *s, uint64_t k) {
    return !s->labels      ? s->intercept
           : s->is_compact ? tusk_double_at(s->trees.bases, k)
                           : s->coef[FIRST_BASE + k];
}

static bool check_width(const tusk_scorer *s, uint64_t d, char *sentence) {
    uint64_t features = tusk_tree_features(s);
    if (d == features)
        return true;
    snprintf(sentence, TUSK_SENTENCE, "the model has %llu features, row has %llu",
             (unsigned long long)features, (unsigned long long)d);
    return false;
}

/* Adds the trees' values for n rows to their margins, one per row, or one for each of more than
 * two classes. */
static bool add_trees(const tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                      double *out, char *sentence) {
    if (s->is_compact)
        return tusk_compact_margins(&s->trees, x, f64, d, n, out) || refuse(sentence);
    uint64_t trees = (uint64_t)s->coef[TREES], bases = (uint64_t)s->coef[BASES];
    uint64_t outputs = bases ? bases : 1, first = FIRST_BASE + bases;
    size_t size = d * (f64 ? sizeof(double) : sizeof(float));
    const tusk_weight *nodes = s->coef + first + trees;
    tusk_rows rows = {x, d, n, f64, false};
    rows.gaps = n > 1 && tusk_any_gap(&rows);
    uint64_t t = 0, done;
    if (n == 1) {
        t = tusk_trees_of_row(nodes, s->coef + first, trees, &rows, outputs, out, &done);
        nodes += done * NODE;
    }
    for (; t < trees; t++) {
        tree_at tree = {nodes, (uint64_t)s->coef[first + t], s};
        uint64_t i = outputs == 1 ? tusk_tree_of_rows(nodes, tree.n, &rows, out) : 0;
        const char *row = (const char *)x + i * size;
        double *sum = out + i * outputs + t % outputs;
        for (; i < n; i++, row += size, sum += outputs)
            if (!(f64 ? walk_f64(&tree, (const tusk_weight *)row, d, sum)
                      : walk_f32(&tree, (const float *)row, d, sum)))
                return refuse(sentence);
        nodes += tree.n * NODE;
    }
    return true;
}

bool tusk_tree_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                       double *out, char *sentence) {
    if (!check_width(s, d, sentence))
        return false;
    for (uint64_t i = 0; i < n; i++)
        out[i] = s->intercept;
    return add_trees(s, x, f64, d, n, out, sentence);
}

bool tusk_tree_class_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, double *out,
                             char *sentence) {
    if (!check_width(s, d, sentence))
        return false;
    for (uint64_t k = 0; k < s->n_classes; k++)
        out[k] = tusk_tree_base(s, k);
    return add_trees(s, x, f64, d, 1, out, sentence);
}

/* Rows of up to this many features are converted on the stack. */
#define NARROW 1024

bool tusk_spread(const tusk_sparse_row *row, bool f64, uint64_t d, double *out, char *sentence) {
    memset(out, 0, d * sizeof *out);
    if (!tusk_check_ids(row, sentence))
        return false;
    for (uint64_t i = 0; i < row->n_ids; i++) {
        uint64_t id = (uint64_t)tusk_id_at(row, i);
        if (id < d)
            out[id] += f64 ? ((const double *)row->values)[i] : ((const float *)row->values)[i];
    }
    return true;
}

bool tusk_tree_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                             char *sentence) {
    uint64_t d = tusk_tree_features(s);
    double narrow[NARROW];
    double *whole = d <= NARROW ? narrow : malloc(d * sizeof *whole);
    if (!whole) {
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    bool done = tusk_spread(row, f64, d, whole, sentence) &&
                (s->labels ? tusk_tree_class_margins(s, whole, true, d, out, sentence)
                           : tusk_tree_margins(s, whole, true, d, 1, out, sentence));
    if (whole != narrow)
        free(whole);
    return done;
}
