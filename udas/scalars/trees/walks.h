/* Several walks through boosted trees at a time (trees.c has the layout of coefficients). */
#ifndef TUSK_WALKS_H
#define TUSK_WALKS_H

#include "../models/score.h"

/* The numbers of a node. */
enum { TUSK_FEATURE, TUSK_VALUE, TUSK_RIGHT, TUSK_GAIN, TUSK_ROWS, TUSK_MISSING, TUSK_NODE };

/* n contiguous rows of d features, float or double. gaps: whether some are NaN. */
typedef struct tusk_rows {
    const void *x;
    uint64_t d, n;
    bool f64, gaps;
} tusk_rows;

bool tusk_any_gap(const tusk_rows *rows);

/* Adds a tree's values for the first rows to sum, (n,), and returns the number of these rows: 0
 * for few rows, or for a damaged tree. */
uint64_t tusk_tree_of_rows(const tusk_weight *nodes, uint64_t n_nodes, const tusk_rows *rows,
                           double *sum);

/* The same for a tree of the compact form, given its first split, their number, and its first
 * leaf. Trees with splits by levels count as damaged. */
typedef struct tusk_subtree {
    uint64_t split, n, leaf;
} tusk_subtree;
uint64_t tusk_compact_tree_of_rows(const tusk_compact *trees, tusk_subtree tree,
                                   const tusk_rows *rows, double *sum);

/* Adds the first trees' values for one row to its margins, tree t to margin t % outputs, and
 * returns the number of these trees; nodes_done: their nodes. sizes: number of nodes of each
 * tree. */
uint64_t tusk_trees_of_row(const tusk_weight *nodes, const tusk_weight *sizes, uint64_t n_trees,
                           const tusk_rows *row, uint64_t outputs, double *sum,
                           uint64_t *nodes_done);

#endif
