/* Gradient boosting of trees over histograms of binned features.
 *
 * Objective, minimised stagewise over the sum of trees f (Friedman, Greedy Function Approximation,
 * Annals of Statistics 2001): mean loss(y, f(x)). Each tree fits the second-order expansion of
 * Chen and Guestrin (XGBoost, KDD 2016, section 2.2): a leaf with sums G of gradients and H of
 * curvatures has the value -T(G) / (H + l2), where T shrinks |G| by l1, and a split gains
 * T(G_l)^2 / (H_l + l2) + T(G_r)^2 / (H_r + l2) - T(G)^2 / (H + l2). Trees grow leaf by leaf, the
 * largest gain first, and the sums of the larger of two siblings are differences (Ke et al.,
 * LightGBM, NIPS 2017).
 */
#ifndef TUSK_TREES_API_H
#define TUSK_TREES_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TK_MOST_BINS 255

enum tk_objective { TK_SQUARED = 0, TK_LOGISTIC = 1 };

typedef struct tk_boost {
    int32_t
        objective; /* enum tk_objective; for TK_LOGISTIC the pass says which label counts as 1 */
    int32_t trees;
    int32_t num_leaves; /* at least 2 */
    int32_t max_depth;  /* of a leaf; 0: no limit */
    int32_t max_bins;   /* of a feature, 2 to TK_MOST_BINS */
    int32_t patience; /* trees without a lower held-out loss after which boosting ends; 0: none */
    int64_t min_child_rows;
    double min_child_hessian, min_gain;
    double l1, l2, learning_rate;
    double feature_fraction; /* of the features, drawn anew for each tree; 1: all */
    uint64_t seed;
    const tusk_group *held; /* (n_groups,) held-out rows, or NULL */
} tk_boost;

/* A node of a tree. Nodes of a tree are in preorder, so the left child of node i is node i + 1.
 * A row goes left if its feature is at most `value`. */
typedef struct tk_node {
    double value;    /* threshold, or of a leaf what it adds to the margin */
    int32_t feature; /* -1: a leaf */
    int32_t right;   /* number of the right child within its tree */
    int64_t missing; /* 1: rows whose feature is NaN go left; 0: they go right */
} tk_node;

/* What one group's boosting gave. */
typedef struct tk_boosted {
    double base;      /* margin before the first tree */
    double base_loss; /* mean training loss there */
    int64_t trees;    /* kept: those up to the lowest held-out loss */
    int64_t grown;    /* trees that were grown */
    int64_t nodes;    /* of all kept trees */
    double held_loss; /* lowest mean held-out loss; NaN without held-out rows */
} tk_boosted;

typedef struct tk_forests tk_forests;
/* Boosts every group of a pass of dense rows. Sums are integers, so trees do not depend on the
 * order of the rows or on the number of threads. */
TK_API int tk_boost_groups(const tk_pass *pass, const tk_boost *boost, tusk_memory *memory,
                           tk_forests **out);
TK_API void tk_forests_free(tk_forests *forests);
/* out: (n_groups,). */
TK_API void tk_forests_about(const tk_forests *forests, tk_boosted *out);
/* Where the trees of one group are written to. */
typedef struct tk_forest_arrays {
    int64_t *start; /* (trees + 1,) the first node of each tree */
    tk_node *nodes; /* (nodes,) */
    float *gain;    /* (nodes,) of a split; 0 at leaves */
    int64_t *rows;  /* (nodes,) rows that reach a node */
    double *loss;   /* (grown,) the mean training loss after each tree */
    double *held;   /* (grown,) the held-out one, or NULL */
} tk_forest_arrays;
TK_API void tk_forests_copy(const tk_forests *forests, int64_t group, const tk_forest_arrays *to);

#ifdef __cplusplus
}
#endif
#endif
