/* Gradient boosting of trees over histograms of binned features.
 *
 * Objective, minimised stagewise over the sum of trees f (Friedman, Greedy Function Approximation,
 * Annals of Statistics 2001): sum of w loss(y, f(x)) / sum of w, where w is 1 for rows without
 * weights; gradients and curvatures are w times those of the loss. Each tree fits the second-order
 * expansion of Chen and Guestrin (XGBoost, KDD 2016, section 2.2): a leaf with sums G of gradients
 * and H of curvatures has the value -T(G) / (H + l2), where T shrinks |G| by l1, and a split gains
 * T(G_l)^2 / (H_l + l2) + T(G_r)^2 / (H_r + l2) - T(G)^2 / (H + l2). Trees grow leaf by leaf, the
 * largest gain first, and the sums of the larger of two siblings are differences (Ke et al.,
 * LightGBM, NIPS 2017).
 *
 * A feature may be a category, whose values are numbers of levels. A split by one sends a set of
 * levels left: those with the least or the greatest G / (H + cat_smooth). Of all sets, one of this
 * kind has the least squared error (Fisher, On grouping for maximum homogeneity, Journal of the
 * American Statistical Association 53, 1958).
 */
#ifndef TUSK_TREES_API_H
#define TUSK_TREES_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TK_MOST_BINS 255
#define TK_MOST_SETS 63
#define TK_MOST_LEVEL 65535 /* limit of a category; levels are numbers from 0 on */

/* Losses of a margin m and a label y: 1/2 (m - y)^2; log(1 + exp(-y m)); exp(m) - y m; max(t r,
 * (t - 1) r) with r = y - m; r^2 / 2 up to |r| = delta and linear beyond; log sum_k exp(m_k) -
 * m_y; y exp(-m) + m; exp((2 - p) m) / (2 - p) + y exp((1 - p) m) / (p - 1). As in LightGBM, the
 * curvature of Poisson's loss is taken exp(0.7) times as large, which bounds its steps, and that
 * of the quantile's and of Huber's loss is 1. A leaf of the quantile's loss has that quantile of
 * what its rows lack. */
enum tk_objective {
    TK_SQUARED = 0,
    TK_LOGISTIC = 1,
    TK_POISSON_TREES = 2,
    TK_QUANTILE_TREES = 3,
    TK_HUBER_TREES = 4,
    TK_SOFTMAX = 5, /* a tree of each class in each iteration */
    TK_GINI = 6,    /* 1/2 (m - [y is the class])^2, of forests: a tree of each class of several */
    TK_GAMMA_TREES = 7,
    TK_TWEEDIE_TREES = 8,
};

/* A node of a tree. Nodes of a tree are in preorder, so the left child of node i is node i + 1.
 * A row goes left if its feature is at most `value`, or, if `missing` is TK_BY_LEVEL, if its
 * level is in the set that begins at `value` in the sets of its tree. */
typedef struct tk_node {
    double value;    /* threshold, or for a leaf its addition to the margin */
    int32_t feature; /* -1: a leaf */
    int32_t right;   /* number of the right child within its tree */
    int64_t
        missing; /* 1: rows whose feature is NaN go left; 0: they go right; TK_BY_LEVEL: right */
} tk_node;
#define TK_BY_LEVEL 2

/* Trees from which boosting continues, the same for all groups; with K > 2 classes, tree t is
 * of class t % K. Children come after their parents and within their tree, and so do sets. */
typedef struct tk_started {
    const double *base;   /* (K,) margins before the first tree */
    int64_t trees;        /* a multiple of K */
    const int64_t *start; /* (trees + 1,) the first node of each tree */
    const tk_node *nodes;
    const double *sets; /* as in tk_forest_arrays */
} tk_started;

typedef struct tk_boost {
    /* enum tk_objective; for TK_LOGISTIC the pass says which label counts as 1 */
    int32_t objective;
    int32_t trees;      /* number of iterations */
    int32_t num_leaves; /* at least 2 */
    int32_t max_depth;  /* of a leaf; 0: no limit */
    int32_t max_bins;   /* of a feature, 2 to TK_MOST_BINS */
    int32_t patience; /* trees without a lower held-out loss after which boosting ends; 0: none */
    int64_t min_child_rows; /* 0: tk_child_rows of the group's rows */
    int64_t min_bin_rows;   /* 0: tk_bin_rows of them */
    /* min_child_hessian: below 0, times a row's mean weight and tk_usual_curvature of the mean
     * label */
    double min_child_hessian, min_gain;
    double l1, l2, learning_rate; /* l2 below 0: tk_l2 of the rows, in the same units */
    /* Fraction of the features, drawn for each tree, and of the rows, drawn for each iteration.
     * 1: all; 0: tk_feature_fraction and tk_row_fraction of the group's rows. */
    double feature_fraction, row_fraction;
    /* t of the quantile's loss; delta of Huber's, 0: estimated; p of Tweedie's, from 1 to 2 */
    double shape;
    uint64_t seed;
    const tusk_group *held; /* (n_groups,) held-out rows, or NULL */
    const double *classes;  /* (n_groups, n_classes) of TK_SOFTMAX, rising; or NULL */
    int64_t n_classes;
    const int8_t *monotone; /* (d,) 1: rises with the feature, -1: falls, 0: either; or NULL */
    /* (d,) bits of the sets, at most TK_MOST_SETS, that a feature is in; or NULL. The features on
     * the way to a leaf are all in some set; one that is in none of them is alone. */
    const uint64_t *together;
    /* (n_groups, d) 1: values are levels of a category; or NULL. TK_REFUSED for other values. */
    const uint8_t *categorical;
    int32_t max_cat_threshold; /* largest number of levels on the left of a split */
    int32_t max_cat_to_onehot; /* up to this number of levels, splits send a single one left */
    int64_t min_category_rows; /* least number of rows on either side of a split by more levels */
    double cat_smooth;         /* least number of rows of such a level; added to H for sorting */
    double cat_l2;             /* added to l2 for such splits and their children */
    /* 1: a random forest (forest/bagging.hpp), whose learning rate is 1 / trees; its losses are
     * out of bag. Objective TK_SQUARED or TK_GINI. */
    int64_t averaged;
    double node_fraction; /* fraction of the features, drawn for each split; 1: all */
    /* Shares of the rows with the largest and with other gradients that each iteration grows on
     * (drawing/one_side.hpp), from iteration 1 / learning_rate on; other_rate 0: all rows. */
    double top_rate, other_rate;
    int64_t spends; /* 1: the features of the groups, including held-out ones, are not read
                     * again, so large groups free their memory once there are bins */
    /* Bounds of the bins of each feature, rising, which all groups share, concatenated by
     * feature; one NaN: each group finds its own. NULL: no feature has shared ones. */
    const double *bounds;
    const int64_t *bound_start; /* (d + 1,) offset of those of each feature */
    const tk_started *from;     /* earlier trees, which count as iterations when rows and features
                                 * are drawn; or NULL. Not for random forests. */
} tk_boost;

/* Defaults of the least rows of a leaf of boosted trees, and of a bin, for a group of n rows.
 * The smallest groups have the smallest leaves and a bin of each value; bins of larger ones
 * have more rows, since searches take time for all bins. Chosen on the sets of development of
 * scripts/bench/trees/small_group_sets.py. */
TK_API int64_t tk_child_rows(int64_t n);
TK_API int64_t tk_bin_rows(int64_t n);
/* Defaults of l2 and of what each tree draws. Groups of fewer than 200 rows gain by all three;
 * larger ones have LightGBM's. */
TK_API double tk_l2(int64_t n);
TK_API double tk_feature_fraction(int64_t n);
TK_API double tk_row_fraction(int64_t n);

/* The factor of the default of min_child_hessian for labels of this mean: the curvature of
 * TK_TWEEDIE_TREES at it, for TK_POISSON_TREES the mean if that is below 1, else 1. */
TK_API double tk_usual_curvature(int32_t objective, double shape, double mean);

/* Result of one group's boosting. */
typedef struct tk_boosted {
    double base;      /* margin before the first tree; 0 for TK_SOFTMAX */
    double base_loss; /* mean training loss there */
    int64_t trees;    /* kept: those up to the lowest held-out loss */
    int64_t grown;    /* number of iterations made */
    int64_t nodes;    /* of all kept trees */
    double held_loss; /* lowest mean held-out loss; NaN without held-out rows */
    int64_t sets;     /* numbers in the sets of all kept trees */
} tk_boosted;

typedef struct tk_forests tk_forests;
/* Boosts every group of a pass of dense rows. Sums are integers, so trees do not depend on the
 * order of the rows or on the number of threads. */
TK_API int tk_boost_groups(const tk_pass *pass, const tk_boost *boost, tusk_memory *memory,
                           tk_forests **out);
TK_API void tk_forests_free(tk_forests *forests);
/* out: (n_groups,). */
TK_API void tk_forests_about(const tk_forests *forests, tk_boosted *out);
/* Destination of the trees of one group. */
typedef struct tk_forest_arrays {
    double *base;   /* (n_classes,) margins before the first tree, or NULL */
    int64_t *start; /* (trees + 1,) the first node of each tree */
    tk_node *nodes; /* (nodes,) */
    float *gain;    /* (nodes,) of a split; 0 at leaves */
    int64_t *rows;  /* (nodes,) rows that reach a node */
    double *loss;   /* (grown,) the mean training loss after each iteration */
    double *held;   /* (grown,) the held-out one, or NULL */
    /* (sets,) each set as a number of words and the words, of 32 bits, the lowest for level 0;
     * values of nodes count from the first set of all trees. */
    double *sets;
} tk_forest_arrays;
/* nodes, gain, rows and sets may be NULL together. */
TK_API void tk_forests_copy(const tk_forests *forests, int64_t group, const tk_forest_arrays *to);

/* The trees in the form of models (udas/scalars/models/trees.c): three counts, the margins of
 * several outputs, the numbers of nodes of the trees, six numbers of each node, and the sets. */
TK_API void tk_forests_numbers(const tk_forests *forests, int64_t group, int64_t features,
                               double *out);

/* A group whose rows lie in parts on different workers (parts/). All parts have the same bins
 * and units, so sums over parts are those over all rows, bit for bit. */

/* Bins of d features, as in bins.hpp. */
typedef struct tk_bins {
    const double *bound;
    const int32_t *first; /* (d + 1,) */
    const uint8_t *missing, *by_level;
    int64_t features;
} tk_bins;
/* Of the rows of all parts: the sum of their weights, the largest one and their unit, that sum of
 * held-out rows, and the largest derivative and curvature, of which one that is not finite ends
 * boosting. room: how many times as much as itself a row may add, 1 where rows are not drawn by
 * their gradients. least, greatest: of the labels, by whose range rows are drawn. */
typedef struct tk_extent {
    double total, most, unit, held, derivative, curvature, room, least, greatest;
} tk_extent;
/* Rows whose code is at most `bin`, or equals `also`, go left, or those of a set of codes. */
typedef struct tk_side {
    int16_t bin, also;
    int32_t set; /* its index among the sets of its tree; -1: none */
} tk_side;
/* Division of a leaf in a part: rows of `left` and `right`, which are numbers of new leaves. */
typedef struct tk_part_split {
    int32_t leaf, left, right, feature;
    int32_t wanted; /* the leaf whose sums are requested */
    int32_t by_level;
    tk_side side;
    uint64_t set[4];
} tk_part_split;

/* What the weights of a group's rows add up to, the largest one, and the unit that they are whole
 * multiples of, 0: there is none. out: (3,). */
TK_API void tk_weights(const tusk_group *group, double *out);
/* The unit that units (n,) of several parts are whole multiples of, 0: there is none. */
TK_API double tk_common_unit(const double *units, int64_t n);
/* The least and the greatest label of a group's rows. out: (2,). */
TK_API void tk_range_of_labels(const tusk_group *group, double *out);
/* out: (d,) 1: some values of a feature are missing. */
TK_API void tk_gaps(const tusk_group *group, uint8_t *out);
/* The rows of a part that determine bounds, as find_bins selects them among all_rows. */
typedef struct tk_bin_sample tk_bin_sample;
TK_API int tk_bin_sample_new(const tusk_group *group, int64_t all_rows, tk_bin_sample **out,
                             int64_t *n_rows);
TK_API void tk_bin_sample_free(tk_bin_sample *sample);
/* Writes the values of a feature that are not missing. Returns their number. */
TK_API int64_t tk_bin_sample_values(const tk_bin_sample *sample, int64_t feature, double *out);
/* Adds the rows of each level of a category to out, (TK_MOST_LEVEL + 1,). Returns TK_REFUSED
 * for values that are not levels. */
TK_API int tk_level_counts(const tusk_group *group, int64_t feature, int64_t *out);
/* The finite bounds of a feature from the sorted values of all parts, and the levels of a
 * category from their rows. all_rows: of the group. out: (max_bins,). Both return a count, -1:
 * no memory. */
TK_API int64_t tk_bounds_of(double *values, int64_t n, const tk_boost *boost, int64_t all_rows,
                            double *out);
TK_API int64_t tk_levels_of(const int64_t *rows, const tk_boost *boost, double *out);
/* The margin before the first tree, from the sum over all rows of tk_part_sums. */
TK_API double tk_base_of(const tk_boost *boost, double sum, double total);

/* The rows of a part: their codes and margins, and while a tree grows their leaves. */
typedef struct tk_part tk_part;
/* pass: of one group, the part's rows. */
TK_API int tk_part_new(const tk_pass *pass, const tk_boost *boost, const tk_bins *bins,
                       const tk_extent *extent, tusk_memory *memory, tk_part **out);
TK_API void tk_part_free(tk_part *part);
/* By output the weighted sum of the labels, or of the rows of a class. */
TK_API int tk_part_sums(const tk_part *part, double *out);
/* Sets the margins before the first tree; from: earlier trees, whose base this is, or NULL. */
TK_API int tk_part_start(tk_part *part, const double *base, const tk_started *from);
/* out: (4,) the rows' contribution to the mean loss and to the held-out one, and the largest
 * derivative and curvature of the objective. */
TK_API int tk_part_losses(tk_part *part, double *out);
/* Keys of the rows' content, by which rows are drawn. key: (rows,), equal for equal rows. */
TK_API int tk_part_keys(const tk_part *part, uint64_t *key);
/* Makes keys of equal rows distinct. key: (n,) rising, of rows that earlier parts also have;
 * before: number of the same rows in earlier parts. */
TK_API int tk_part_tell_apart(tk_part *part, const uint64_t *key, const int64_t *before,
                              int64_t n);
/* Begins a tree of an output with the rows that the iteration draws in leaf 0; iteration -1:
 * all rows. out: (bins, 3) their sums. */
TK_API int tk_part_begin(tk_part *part, int64_t iteration, int64_t output, const tk_extent *extent,
                         int64_t *out);
/* Numbers of rows that parts count by the bits after a known prefix, so that all parts together
 * find the number of a rank. They are counted as keys whose order is that of the numbers.
 * TK_LACKS: label - margin of each row, by leaf; TK_SIZES: |gradient * curvature| of each row;
 * TK_CHANCES: random numbers by which rows below a size are drawn. */
enum tk_ranked { TK_LACKS = 0, TK_SIZES = 1, TK_CHANCES = 2 };
typedef struct tk_ranks {
    int32_t of, known;     /* enum tk_ranked; length of the known prefix in bits */
    int64_t bits;          /* number of following bits to count by */
    const uint64_t *first; /* (slots,) the known prefixes, of leaves or of all rows */
    int64_t slots;
    int64_t iteration;
    double least; /* the size of TK_CHANCES */
} tk_ranks;
/* counts: (slots, 2^bits) number of rows; weights: sums of their weights. One may be NULL. */
TK_API int tk_part_ranks(tk_part *part, const tk_ranks *ranks, const tk_extent *extent,
                         int64_t *counts, double *weights);
/* out: (slots,) the least key that is greater than `first`, all of whose bits are known; or all
 * bits set. */
TK_API int tk_part_next(tk_part *part, const tk_ranks *ranks, uint64_t *out);
/* The t-quantile of n numbers from those of the rank below it and of the next one. */
TK_API double tk_between(double low, double high, int64_t n, double t);
/* Sets the slots of rows by their leaves in the finished tree; slot: of each node. all: use all
 * rows instead of the drawn ones. */
TK_API int tk_part_leaves(tk_part *part, int64_t all, const tk_node *nodes, const tk_side *sides,
                          const uint64_t *sets, const int32_t *slot);
/* Number of n iterations to keep, by the mean loss before the first one and after each: those
 * up to the lowest held-out loss if `held` is given. Boosting has diverged if the final
 * training loss is more than half of the way up from the lowest one to the one before all
 * trees, as may happen if leaves take whole steps of Newton's method; of such trees those up to
 * the lowest training loss are kept. held: or NULL. */
TK_API int64_t tk_kept_iterations(double base_loss, const double *loss, const double *held,
                                  int64_t n);
/* Criterion for the rows that are drawn by their gradients: those of at least a size, and of
 * the others those of chances up to `last`, each of which counts `factor` times. */
typedef struct tk_one_side {
    double least, factor;
    uint64_t last;
} tk_one_side;
/* Draws the rows of an iteration, before its first tree. tk_part_begin uses them in the same
 * iteration. */
TK_API int tk_part_draw(tk_part *part, int64_t iteration, const tk_extent *extent,
                        const tk_one_side *by);
/* Divides leaves. out: (n, bins, 3) requested sums, or NULL. A split that was made before is
 * not repeated. */
TK_API int tk_part_divide(tk_part *part, const tk_part_split *splits, int64_t n, int64_t *out);
/* Adds the values of a tree to the rows' margins. sets: (.., 4). */
TK_API int tk_part_add(tk_part *part, int64_t output, const tk_node *nodes, const tk_side *sides,
                       const uint64_t *sets);

/* The rows of a part for growing a random forest (forest/bagging.hpp). */
typedef struct tk_bagged tk_bagged;
/* pass: of one group, the part's rows. boost: as for tk_boost_groups. */
TK_API int tk_bagged_new(const tk_pass *pass, const tk_boost *boost, const tk_bins *bins,
                         const tk_extent *extent, tusk_memory *memory, tk_bagged **out);
TK_API void tk_bagged_free(tk_bagged *part);
/* See tk_part_sums and tk_part_keys. */
TK_API int tk_bagged_sums(const tk_bagged *part, double *out);
TK_API int tk_bagged_keys(const tk_bagged *part, uint64_t *key);
/* See tk_part_tell_apart. out: (rows,) the distinct keys, rising. */
TK_API int tk_bagged_tell_apart(tk_bagged *part, const uint64_t *key, const int64_t *before,
                                int64_t n, uint64_t *out);
/* place: (rows,) the index of each of these keys among those of all parts, rising. */
TK_API int tk_bagged_place(tk_bagged *part, const uint32_t *place, int64_t all_rows);
/* mean: (K,) of the labels of all parts; total: of all weights. out: (1 + K,) the rows'
 * contribution to the mean loss there, and for each output the largest derivative. */
TK_API int tk_bagged_start(tk_bagged *part, const double *mean, double total, double *out);
/* Begins a tree, like tk_part_begin. */
TK_API int tk_bagged_begin(tk_bagged *part, int64_t iteration, int64_t output,
                           const tk_extent *extent, int64_t *out);
/* Like tk_part_divide. out: sums of the splits that request some; a `wanted` of -1 requests
   none. */
TK_API int tk_bagged_divide(tk_bagged *part, const tk_part_split *splits, int64_t n, int64_t *out);
/* The number of drawn rows in some leaves, and these rows, repeated as often as they were
 * drawn. counts: (n,); codes: (rows, d); addends: (rows, 2) as in histogram.hpp. */
TK_API int64_t tk_bagged_count(const tk_bagged *part, const int32_t *leaves, int64_t n);
TK_API void tk_bagged_rows(const tk_bagged *part, const int32_t *leaves, int64_t n,
                           int64_t *counts, uint8_t *codes, int64_t *addends);
/* Adds the values of a tree to rows that it did not draw. */
TK_API int tk_bagged_add(tk_bagged *part, int64_t iteration, int64_t output, const tk_node *nodes,
                         const tk_side *sides, const uint64_t *sets);
/* out: (2,) the losses of rows by the trees that did not draw them, and the weights of these
   rows. */
TK_API void tk_bagged_losses(const tk_bagged *part, double *out);

/* Grows trees by sums over all parts. */
typedef struct tk_summed tk_summed;
/* branch_rows: largest number of rows of a leaf of a forest whose branch grows by its rows; for
 * these branches: threads, and cancel_mark as in tk_pass. */
typedef struct tk_growing {
    int64_t branch_rows, threads, cancel_mark;
} tk_growing;
TK_API int tk_summed_new(const tk_boost *boost, const tk_bins *bins, const tk_growing *growing,
                         tk_summed **out);
TK_API void tk_summed_free(tk_summed *summed);
/* Begins the tree of an output in an iteration. root: (bins, 3) sums over all rows. */
TK_API int tk_summed_begin(tk_summed *summed, int64_t iteration, int64_t output,
                           const tk_extent *extent, const int64_t *root);
/* Writes the splits to make before the tree can grow on, at most `most`; returns 0 if the tree
 * has grown, unless rows are requested. */
TK_API int64_t tk_summed_wanted(tk_summed *summed, int64_t most, tk_part_split *out);
/* sums: (n, bins, 3) as requested; a `wanted` of -1 requests none. */
TK_API int tk_summed_given(tk_summed *summed, const int64_t *sums);
/* The leaves whose rows are requested, at most `most`; then no sums are. */
TK_API int64_t tk_summed_rows_wanted(const tk_summed *summed, int64_t most, int32_t *leaves);
/* The n rows of the next such leaf in all parts, as from tk_bagged_rows. */
TK_API int tk_summed_given_rows(tk_summed *summed, const uint8_t *codes, const int64_t *addends,
                                int64_t n);
/* out: (3,) number of nodes, of sets of codes, and of numbers in sets of levels of the finished
   tree. */
TK_API void tk_summed_sizes(const tk_summed *summed, int64_t *out);
typedef struct tk_summed_arrays {
    tk_node *nodes;
    float *gain;
    int64_t *rows;
    tk_side *sides;
    uint64_t *codes; /* (.., 4) */
    double *sets;
} tk_summed_arrays;
TK_API void tk_summed_copy(const tk_summed *summed, const tk_summed_arrays *to);

#ifdef __cplusplus
}
#endif
#endif
