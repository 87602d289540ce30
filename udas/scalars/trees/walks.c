/* Margins of boosted trees, several walks at a time: a walk waits for one number after another,
 * so a processor has time for others meanwhile. Sums are those of one walk after another, bit
 * for bit. Invalid or damaged trees are left to trees.c. */
#include <math.h>
#include <stdlib.h>

#include "../models/margins.h"
#include "walks.h"

#define TOGETHER 8   /* walks */
#define ROUND 4      /* steps between checks of the walks */
#define ON_STACK 128 /* nodes */

/* The largest float that is at most x: a float is at most both or none. */
static float bound_f32(double x) {
    float y = (float)x;
    return (double)y > x ? nextafterf(y, -INFINITY) : y;
}
static double bound_f64(double x) {
    return x;
}

/* Whether node `at` of n is a leaf, or a split by one of d features that points at later nodes. */
static bool is_sound(const tusk_weight *node, uint64_t at, uint64_t n, uint64_t d) {
    double right = node[TUSK_RIGHT];
    return node[TUSK_FEATURE] < 0 ||
           (node[TUSK_FEATURE] < (double)d && right >= (double)(at + 1) && right < (double)n &&
            at + 1 < n && node[TUSK_MISSING] <= 1 && node[TUSK_VALUE] == node[TUSK_VALUE]);
}

/* A node of a tree for rows of type T: a row goes on to the first node if its feature is at most
 * the bound, to the third if it is missing, otherwise to the second. Leaves go on to themselves.
 */
#define DEFINE_TREES(T, name)                                                                     \
    typedef struct name##_node {                                                                  \
        T bound;                                                                                  \
        uint32_t feature, next[3];                                                                \
    } name##_node;                                                                                \
                                                                                                  \
    static bool name##_pack(const tusk_weight *from, uint64_t n, uint64_t d, name##_node *to) {   \
        for (uint64_t at = 0; at < n; at++, from += TUSK_NODE) {                                  \
            if (!is_sound(from, at, n, d))                                                        \
                return false;                                                                     \
            bool leaf = from[TUSK_FEATURE] < 0;                                                   \
            uint32_t left = (uint32_t)(leaf ? at : at + 1);                                       \
            uint32_t right = (uint32_t)(leaf ? at : (uint64_t)from[TUSK_RIGHT]);                  \
            to[at] = (name##_node){leaf ? 0 : bound_##name(from[TUSK_VALUE]),                     \
                                   leaf ? 0 : (uint32_t)from[TUSK_FEATURE],                       \
                                   {left, right, from[TUSK_MISSING] == 1 ? left : right}};        \
        }                                                                                         \
        return true;                                                                              \
    }                                                                                             \
                                                                                                  \
    /* The same of a compact tree: its n splits, then its leaves. Of a split that is not reached  \
     * yet, `feature` is the size of its subtree, and `next` the first leaf of that. */           \
    static bool name##_unpack(const tusk_compact *c, tusk_subtree tree, uint64_t d,               \
                              name##_node *to) {                                                  \
        int threshold = c->head.threshold, index = c->head.index;                                 \
        uint64_t size = (uint64_t)(threshold + 2 * index);                                        \
        const char *split = c->splits + tree.split * size;                                        \
        uint32_t n = (uint32_t)tree.n;                                                            \
        to[0] = (name##_node){0, n, {0}};                                                         \
        for (uint32_t at = 0; at < n; at++, split += size) {                                      \
            tusk_split s = tusk_split_at(split, threshold, index);                                \
            uint32_t own = to[at].feature, leaf = to[at].next[0], left = (uint32_t)s.left;        \
            if (left >= own || s.feature >= d || s.missing > 1)                                   \
                return false;                                                                     \
            uint32_t rest = own - 1 - left, behind = leaf + left + 1;                             \
            uint32_t lower = left ? at + 1 : n + leaf;                                            \
            uint32_t upper = rest ? at + 1 + left : n + behind;                                   \
            if (left)                                                                             \
                to[lower] = (name##_node){0, left, {leaf}};                                       \
            if (rest)                                                                             \
                to[upper] = (name##_node){0, rest, {behind}};                                     \
            to[at] = (name##_node){bound_##name(s.threshold),                                     \
                                   (uint32_t)s.feature,                                           \
                                   {lower, upper, s.missing ? lower : upper}};                    \
        }                                                                                         \
        for (uint32_t leaf = n; leaf <= 2 * n; leaf++)                                            \
            to[leaf] = (name##_node){0, 0, {leaf, leaf, leaf}};                                   \
        return true;                                                                              \
    }                                                                                             \
                                                                                                  \
    /* Adds what the tree says of TOGETHER rows. values: of its nodes, `stride` doubles apart. */ \
    static inline void name##_walk(const name##_node *tree, const tusk_weight *values,            \
                                   uint64_t stride, const T *x, uint64_t d, bool gaps,            \
                                   double *sum) {                                                 \
        uint32_t at[TOGETHER] = {0}, going;                                                       \
        do {                                                                                      \
            for (int step = 0; step < ROUND; step++)                                              \
                for (int i = 0; i < TOGETHER; i++) {                                              \
                    const name##_node *node = tree + at[i];                                       \
                    T value = x[i * d + node->feature];                                           \
                    at[i] = node->next[!(value <= node->bound) + (gaps && value != value)];       \
                }                                                                                 \
            going = 0;                                                                            \
            for (int i = 0; i < TOGETHER; i++)                                                    \
                going |= tree[at[i]].next[0] ^ at[i];                                             \
        } while (going);                                                                          \
        for (int i = 0; i < TOGETHER; i++)                                                        \
            sum[i] += values[at[i] * stride];                                                     \
    }                                                                                             \
                                                                                                  \
    static uint64_t name##_walk_rows(const name##_node *tree, const tusk_weight *values,          \
                                     uint64_t stride, const tusk_rows *rows, double *sum) {       \
        const T *x = rows->x;                                                                     \
        uint64_t row = 0, d = rows->d;                                                            \
        if (rows->gaps)                                                                           \
            for (; row + TOGETHER <= rows->n; row += TOGETHER)                                    \
                name##_walk(tree, values, stride, x + row * d, d, true, sum + row);               \
        else                                                                                      \
            for (; row + TOGETHER <= rows->n; row += TOGETHER)                                    \
                name##_walk(tree, values, stride, x + row * d, d, false, sum + row);              \
        return row;                                                                               \
    }                                                                                             \
                                                                                                  \
    static uint64_t name##_rows(const tusk_weight *nodes, uint64_t n_nodes,                       \
                                const tusk_rows *rows, double *sum) {                             \
        name##_node few[ON_STACK];                                                                \
        name##_node *tree = n_nodes <= ON_STACK ? few : malloc(n_nodes * sizeof *tree);           \
        uint64_t done = 0;                                                                        \
        if (tree && name##_pack(nodes, n_nodes, rows->d, tree))                                   \
            done = name##_walk_rows(tree, nodes + TUSK_VALUE, TUSK_NODE, rows, sum);              \
        if (tree != few)                                                                          \
            free(tree);                                                                           \
        return done;                                                                              \
    }                                                                                             \
                                                                                                  \
    static uint64_t name##_compact(const tusk_compact *c, tusk_subtree of, const tusk_rows *rows, \
                                   double *sum) {                                                 \
        name##_node few[ON_STACK];                                                                \
        uint64_t n_nodes = 2 * of.n + 1, done = 0;                                                \
        name##_node *tree = n_nodes <= ON_STACK ? few : malloc(n_nodes * sizeof *tree);           \
        const tusk_weight *leaves = (const tusk_weight *)c->leaves + of.leaf;                     \
        if (tree && name##_unpack(c, of, rows->d, tree))                                          \
            done = name##_walk_rows(tree, leaves - of.n, 1, rows, sum);                           \
        if (tree != few)                                                                          \
            free(tree);                                                                           \
        return done;                                                                              \
    }                                                                                             \
                                                                                                  \
    /* Walks TOGETHER trees with one row; false if one of them is no sound tree of numbers. */    \
    static bool name##_trees(const tusk_weight *const *trees, const double *sizes, const T *x,    \
                             uint64_t d, uint64_t *at) {                                          \
        bool going, bad = false;                                                                  \
        do {                                                                                      \
            going = false;                                                                        \
            for (int i = 0; i < TOGETHER; i++) {                                                  \
                const tusk_weight *node = trees[i] + at[i] * TUSK_NODE;                           \
                double feature = node[TUSK_FEATURE], here = (double)at[i];                        \
                bool leaf = feature < 0, known = feature < (double)d;                             \
                double value = (double)x[!leaf & known ? (uint64_t)feature : 0];                  \
                bool left =                                                                       \
                    (value <= node[TUSK_VALUE]) | ((value != value) & (node[TUSK_MISSING] == 1)); \
                double next = left ? here + 1 : node[TUSK_RIGHT];                                 \
                bool sound =                                                                      \
                    known & (next >= here + 1) & (next < sizes[i]) & (node[TUSK_MISSING] <= 1);   \
                bad |= !leaf & !sound;                                                            \
                at[i] = (uint64_t)(!leaf & sound ? next : here);                                  \
                going |= !leaf;                                                                   \
            }                                                                                     \
        } while (going & !bad);                                                                   \
        return !bad;                                                                              \
    }                                                                                             \
                                                                                                  \
    static bool name##_any_gap(const T *x, uint64_t n) {                                          \
        uint64_t gaps = 0;                                                                        \
        for (uint64_t i = 0; i < n; i++)                                                          \
            gaps += x[i] != x[i];                                                                 \
        return gaps;                                                                              \
    }

DEFINE_TREES(float, f32)
DEFINE_TREES(tusk_weight, f64)

uint64_t tusk_tree_of_rows(const tusk_weight *nodes, uint64_t n_nodes, const tusk_rows *rows,
                           double *sum) {
    if (rows->n < TOGETHER || rows->n < n_nodes / 8 || n_nodes > UINT32_MAX)
        return 0;
    return rows->f64 ? f64_rows(nodes, n_nodes, rows, sum) : f32_rows(nodes, n_nodes, rows, sum);
}

uint64_t tusk_compact_tree_of_rows(const tusk_compact *trees, tusk_subtree tree,
                                   const tusk_rows *rows, double *sum) {
    if (rows->n < TOGETHER || rows->n < tree.n / 4 || tree.n > INT32_MAX)
        return 0;
    return rows->f64 ? f64_compact(trees, tree, rows, sum) : f32_compact(trees, tree, rows, sum);
}

uint64_t tusk_trees_of_row(const tusk_weight *nodes, const tusk_weight *sizes, uint64_t n_trees,
                           const tusk_rows *row, uint64_t outputs, double *sum,
                           uint64_t *nodes_done) {
    uint64_t t = 0;
    *nodes_done = 0;
    for (; row->d && t + TOGETHER <= n_trees; t += TOGETHER) {
        const tusk_weight *trees[TOGETHER];
        double size[TOGETHER];
        uint64_t at[TOGETHER] = {0}, done = *nodes_done;
        for (int i = 0; i < TOGETHER; i++) {
            trees[i] = nodes + done * TUSK_NODE;
            size[i] = sizes[t + i];
            done += (uint64_t)size[i];
        }
        if (!(row->f64 ? f64_trees(trees, size, row->x, row->d, at)
                       : f32_trees(trees, size, row->x, row->d, at)))
            break;
        for (int i = 0; i < TOGETHER; i++)
            sum[(t + i) % outputs] += trees[i][at[i] * TUSK_NODE + TUSK_VALUE];
        *nodes_done = done;
    }
    return t;
}

bool tusk_any_gap(const tusk_rows *rows) {
    return rows->f64 ? f64_any_gap(rows->x, rows->n * rows->d)
                     : f32_any_gap(rows->x, rows->n * rows->d);
}
