/* Linear models with an L1 penalty, along a falling sequence of penalties.
 *
 * With weights a_i of the rows, which here add up to 1, the objective of a group is
 *
 *   sum_i a_i loss(b + x_i.w, y_i) + lambda (alpha ||s w||_1 + (1 - alpha)/2 ||s w||_2^2),
 *
 * J. Friedman, T. Hastie and R. Tibshirani, Regularization paths for generalized linear models via
 * coordinate descent, Journal of Statistical Software 33, 2010. The loss is 1/2 (m - y)^2, or
 * log(1 + exp(m)) - y m with y 1 for the positive label and 0 for the other one. s is 1, or with
 * `standardize` the features' standard deviations. The intercept b has no penalty. A block of p
 * features has alpha sqrt(p) ||s w||_2 in the place of its share of alpha ||s w||_1 (M. Yuan and
 * Y. Lin, Model selection and estimation in regression with grouped variables, JRSS B 68, 2006).
 *
 * Method: coordinate descent on a working set that grows by the features nearest to violating the
 * dual constraint (M. Massias, A. Gramfort and J. Salmon, Celer: a fast solver for the lasso with
 * dual extrapolation, ICML 2018), with Anderson acceleration (Q. Bertrand and M. Massias, Anderson
 * acceleration of coordinate descent, AISTATS 2021); safe bounds on correlations (E. Ndiaye, O.
 * Fercoq, A. Gramfort and J. Salmon, Gap safe screening rules for sparsity enforcing penalties,
 * JMLR 18, 2017); starting points from the penalty before, with the strong rule (R. Tibshirani et
 * al., Strong rules for discarding predictors in lasso-type problems, JRSS B 74, 2012). The
 * logistic loss is replaced by its quadratic approximation in turn, with a line search. Few dense
 * features are fitted from sums over rows, by systems of equations: `products/`.
 */
#ifndef TUSK_PATHS_API_H
#define TUSK_PATHS_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tk_path_loss { TK_PATH_SQUARED = 0, TK_PATH_LOGISTIC = 1 };

/* Result for one penalty. */
typedef struct tk_path_point {
    double lambda;
    double objective; /* the objective in the header above */
    double gap;       /* an upper bound of objective - least objective */
    double null;      /* the objective where all penalised weights are 0 */
    double intercept;
    double held;       /* mean loss of held-out rows; NaN without folds */
    double held_error; /* its standard error */
    int64_t epochs;    /* of coordinate descent, and systems of equations */
    int64_t n_weights; /* weights that are not 0 */
} tk_path_point;

enum tk_path_role { TK_LEFT_OUT, TK_TRAINED_ON, TK_HELD_OUT };
typedef struct tk_path_spec {
    int32_t loss; /* enum tk_path_loss */
    int32_t length;
    int32_t folds; /* number of folds, 0: none */
    int32_t positive, standardize;
    const double *alpha;    /* (n_groups, 3): alpha, in (0, 1]; 1 - alpha, to all digits; and the
                             * alpha that determines the largest lambda, which is alpha unless that
                             * is tiny */
    double ratio;           /* smallest over largest lambda, if no lambdas are given */
    double tolerance;       /* of the gap, relative to `null` */
    int64_t max_epochs;     /* per penalty */
    int32_t n_stretches;    /* number into which the rows of each group are dealt */
    const int32_t *stretch; /* of each row, groups concatenated */
    const uint8_t *role;    /* (folds, n_stretches), enum tk_path_role; NULL: stretch k is held
                             * out in fold k, and all others are trained on */
    const double *lambda; /* (length,), falling; NULL: starting at the largest one that matters */
    const uint8_t *free;  /* (n_groups, d), nonzero: no penalty; NULL: all have one */
    const int32_t *block; /* (n_groups, d), equal numbers: a block; NULL: there are none */
} tk_path_spec;

/* Fits each group. points: (n_groups, length). memory: the account that is charged for copies
 * of sparse rows and of dense columns, and for sums over rows, NULL for the heap. The pass's
 * deadline ends a path early: later points have NaN in `lambda`. */
typedef struct tk_paths tk_paths;
TK_API int tk_paths_new(const tk_pass *pass, const tk_path_spec *spec, tusk_memory *memory,
                        tk_path_point *points, tk_paths **out);
/* Copies a group's weights that are not 0 in the order of its penalties: feature, weight. */
TK_API void tk_paths_copy(const tk_paths *paths, int64_t group, int32_t *feature, double *weight);
TK_API void tk_paths_free(tk_paths *paths);

/* Whether a group is fitted from sums over its rows; ignores spec's `lambda` and `free`. */
TK_API int tk_paths_by_sums(const tk_pass *pass, const tk_path_spec *spec, int64_t group);

/* The rows of a part of a group, for updates that a leader schedules (`learners/paths/parted.py`).
 * Weights are those of z = scale (x - centre), and the rows' weights a_i add up to 1 over all
 * parts. The margin of a row is constant + z.w. t is minus the derivative of the loss by the
 * margin, times a_i; h its second derivative, times a_i. */
typedef struct tk_path_part tk_path_part;
typedef struct tk_path_step {
    double constant;
    int64_t n_changed, n_picked;
    const int32_t *changed; /* (n_changed,) features, each once */
    const double *weight;   /* (n_changed,) their new weights */
    const int32_t *picked;  /* (n_picked,) features */
} tk_path_step;
enum { TK_PATH_SUMS = 3 };

/* pass: of one group, the part's rows; loss: enum tk_path_loss. */
TK_API int tk_path_part_new(const tk_pass *pass, int32_t loss, tusk_memory *memory,
                            tk_path_part **out);
TK_API void tk_path_part_free(tk_path_part *part);
/* The sum of the rows' weights, (1,), and with these the features' means and variances, (d,). */
TK_API int tk_path_part_moments(const tk_path_part *part, double *weight, double *mean,
                                double *variance);
/* Sets all weights to 0. total: the sum of the rows' weights over all parts. */
TK_API int tk_path_part_start(tk_path_part *part, double total, const double *centre,
                              const double *scale);
/* Changes weights. pull: (n_picked,) z.t; curvature: (n_picked,) the sum of h z^2, for the
 * logistic loss only; sums: (TK_PATH_SUMS,) of the loss, t and h. */
TK_API int tk_path_part_step(tk_path_part *part, const tk_path_step *step, double *pull,
                             double *curvature, double *sums);
/* Of t' = t - shift h: pull: (d,) z.t'; sums: (2,) of t'^2 / a and of t' (y - margin). */
TK_API int tk_path_part_look(tk_path_part *part, double shift, double *pull, double *sums);
/* The sum of a entropy(y - factor t' / a), NaN if that leaves [0, 1], (1,). */
TK_API int tk_path_part_dual(const tk_path_part *part, double shift, double factor, double *out);
/* Columns of z of some rows, about evenly spaced, times the roots of a: (n, rows). */
TK_API int tk_path_part_sample(tk_path_part *part, int64_t rows, int64_t n, const int32_t *feature,
                               float *out);

/* Paths, and the chosen penalty of each. */
typedef struct tk_chosen_paths {
    int64_t n_groups;
    int32_t length;
    const tk_path_point *points; /* (n_groups, length) */
    const int64_t *chosen;       /* (n_groups,) indices of penalties, from 0 on */
    const int64_t *feature;      /* in the order of `tk_paths_copy`, groups concatenated */
    const double *weight;
} tk_chosen_paths;

/* Writes the paths of models as JSON: {"path": [{"lambda": ..., "loss": ..., "gap": ...,
 * "held_out": ..., "held_out_error": ..., "intercept": ..., "feature": [...], "weight": [...]},
 * ...], "chosen": ...}. Indices of features count from 1. */
typedef struct tk_path_texts tk_path_texts;
TK_API int tk_path_texts_new(const tk_chosen_paths *paths, int threads, tk_path_texts **out);
/* Text of a group, with its length in bytes. */
TK_API const char *tk_path_text(const tk_path_texts *texts, int64_t group, int64_t *bytes);
TK_API void tk_path_texts_free(tk_path_texts *texts);

#ifdef __cplusplus
}
#endif
#endif
