/* Passes over all rows that sum gradients and curvatures, and the solution of the linear systems
 * that these define. */
#ifndef TUSK_LINEAR_API_H
#define TUSK_LINEAR_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out, shape (n_groups, d + 3): sum of losses, number of rows read, gradient sums (d features,
 * then the intercept). */
TK_API int tk_gradient(const tk_pass *pass, const double *weights, double *out);
/* The same sums, followed by the lower triangle of sum(h z z') row by row, where the last
 * coordinate of z is 1. The shape is (n_groups, d + 3 + (d + 1)(d + 2)/2). The gradient is in the
 * caller's coordinates, the curvature in those of z. Rows of floats are multiplied in float, 64
 * rows at a time, unless `precise` is set. */
TK_API int tk_curvature(const tk_pass *pass, const double *weights, const double *shift,
                        const double *scale, int precise, double *out);
/* The curvature times directions u, sum(h_i (x_i.u + u_b) (x_i, 1)), in the caller's coordinates.
 * u and out have shape (n_groups, d + 1). The h of group g begin at offset[g], in the order in
 * which the pass reads its rows. h is NULL for the squared loss, whose h_i are 1. If weights are
 * not NULL, h is first computed at them and stored. Then diagonal, shape (n_groups, d + 2), gets
 * sum(h_i x_i^2) for each sparse feature or sum(h_i) for each dense one, followed by sum(h_i) and
 * the number of rows. */
TK_API int tk_curvature_times(const tk_pass *pass, const double *weights, const double *direction,
                              const int64_t *offset, double *h, double *out, double *diagonal);
/* The range of the signed margins y m, y = -1 or 1, and of their change along a direction u.
 * For each group, out, shape (n_groups, 4), gets four values over its rows: the smallest y (x.w
 * + b), the smallest and the largest y (x.u + u_b), and the largest |x.u + u_b| / (1 + exp(-y
 * (x.w + b + offset))). For counts, that is if the loss of the pass is not one of classes, a
 * row counts with -(x.u + u_b) and |x.u + u_b| if it is 0, and else with a change of |x.u +
 * u_b| alone. Rows whose y (x.w + b + offset), y = -1 for a count of 0, is above far, shape
 * (n_groups,), are left out, except for counts above 0. */
TK_API int tk_margin_reach(const tk_pass *pass, const double *weights, const double *direction,
                           const double *far, double *out);
/* A custom loss function. From margins and labels, shape (n,), it computes the loss, its
 * derivative by the margin and, unless NULL, its curvature, each of shape (n,). Labels are -1
 * and 1 if pass->loss is a loss for classes. A nonzero result is a failure. */
typedef int (*tk_loss)(const double *margin, const double *label, int64_t n, double *loss,
                       double *derivative, double *curvature);
typedef struct tk_open {
    tk_loss loss;          /* NULL: the loss of the pass */
    int32_t any_thread;    /* 0: it is called on the caller's thread only, for up to 65,536 rows */
    const int64_t *offset; /* (n_groups + 1,) */
    const int64_t *row;    /* (offset[n_groups],) 0-based rows to read per group; NULL: all */
    const double *weight;  /* of these rows; NULL: 1 */
    int32_t *answered;     /* set to 1 by a loss call that completes; NULL: the loss is in C */
} tk_open;
/* Like tk_gradient, or like tk_curvature if `curvature` is set, with the loss, rows and weights of
 * `open`. Only the curvature uses shift and scale. */
TK_API int tk_open_pass(const tk_pass *pass, const tk_open *open, const double *weights,
                        const double *shift, const double *scale, int curvature, double *out);
/* The likelihood of counts by the size t = 1 / dispersion of a negative binomial, shape
 * (n_groups,), at means exp(margin). out, shape (n_groups, 4): the sum of the log-likelihoods
 * without log y!, of their first and second derivatives by t, and the number of rows. */
TK_API int tk_size_likelihood(const tk_pass *pass, const double *weights, const double *size,
                              double *out);
/* The weighted median of the absolute residuals |margin - label| of each group, the mean of two
 * if half of the weight is at or below the lower one. weights as in tk_gradient; out has shape
 * (n_groups,). */
TK_API int tk_median_residual(const tk_pass *pass, const double *weights, double *out);
/* Squared scores by leverage: weights and coordinates of z as in tk_curvature. */
typedef struct tk_robust {
    const double *weights, *shift, *scale;
    const double *inverse; /* the inverse of the summed curvature of z, packed like it */
    int32_t power;         /* power of 1 - leverage that divides squared derivatives */
    int32_t squared;       /* whether a row is one, and has the square of its weight as weight */
} tk_robust;
/* The lower triangle of sum(s^2 / (1 - h)^power z z'), row by row, shape (n_groups, (d + 1)(d +
 * 2)/2), with the derivatives s of the losses by the margin. */
TK_API int tk_squared_scores(const tk_pass *pass, const tk_robust *how, double *out);
/* The lower triangle of sum(u u'), row by row, in the shape of tk_squared_scores, with the sum u
 * of the scores s z over the rows of a cluster; clusters, shape (n_groups,), gets their number.
 * The rows have clusters. */
TK_API int tk_cluster_scores(const tk_pass *pass, const tk_robust *how, double *out,
                             int64_t *clusters);
/* Several classes, whose loss is log sum_k exp(m_k) - m_y with a margin for each. */
typedef struct tk_softmax {
    int64_t n_classes;
    const double *label;  /* (n_groups, n_classes), rising */
    const double *weight; /* of the rows of each class, like label; NULL: 1 */
} tk_softmax;
/* The distinct labels of each group, rising, and the rows of each, shape (n_groups, most).
 * count, shape (n_groups,), is most + 1 if there are more. */
TK_API int tk_classes(const tk_pass *pass, int64_t most, double *label, double *rows,
                      int64_t *count);
/* Like tk_gradient, for weights of shape (n_groups, n_classes, d + 1): sum of losses, rows, and
 * gradient sums in the shape of the weights. */
TK_API int tk_softmax_gradient(const tk_pass *pass, const tk_softmax *softmax,
                               const double *weights, double *out);
/* For each pair of classes k >= l, row by row, the lower triangle of sum(h z z'), row by row, with
 * h = p_k ([k = l] - p_l), p the probabilities, and z as in tk_curvature. */
TK_API int tk_softmax_curvature(const tk_pass *pass, const tk_softmax *softmax,
                                const double *weights, const double *shift, const double *scale,
                                double *out);
/* The lower triangle of sum(u u'), row by row, with the scores of rows or, unless clusters is
 * NULL, their sums by cluster, as u: of each class the derivative of the loss times z. out has
 * shape (n_groups, w (w + 1) / 2), w = n_classes (d + 1). With power 1 or 2 the derivatives r of a
 * row become (1 - W M)^(-power / 2) r with the curvature W = diag(p) - p p' by margins and M = Z A
 * Z', Z the row z for each class and A the inverse, packed like out; not by cluster. */
TK_API int tk_softmax_scores(const tk_pass *pass, const tk_softmax *softmax, const tk_robust *how,
                             double *out, int64_t *clusters);
/* Extremes over each group's rows and the classes k other than the row's y, shape (n_groups,
 * 4), at weights and along a direction in the shape of tk_softmax_gradient's: the least m_y -
 * m_k, the least and the largest move of it, and the largest move of m_k above the mean by
 * probability of all classes' moves. Classes whose m_y - m_k is above far, shape (n_groups,),
 * are left out. */
TK_API int tk_softmax_reach(const tk_pass *pass, const tk_softmax *softmax, const double *weights,
                            const double *direction, const double *far, double *out);
/* Linear systems H step = gradient, one per group. */
typedef struct tk_system {
    int64_t n_groups, p;
    const double *hessian; /* the lower triangle of H, row by row */
    int64_t stride;        /* doubles from one group's triangle to the next */
    const double *gradient;
    double *step;             /* out, like gradient (n_groups, p) */
    int64_t *rank;            /* out, (n_groups,): number of independent coordinates */
    double *pivot;            /* out, (n_groups,): their smallest pivot relative to the diagonal
                                 of H, near 0 when H is ill-conditioned */
    double *inverse_diagonal; /* out, (n_groups, p): diagonal of the inverse of H, NaN for
                                 dependent coordinates; NULL: not computed */
    int32_t threads;
    int64_t cancel_mark; /* as in tk_pass */
    double deadline;     /* as in tk_pass */
} tk_system;
/* Solves the systems by Cholesky factorization. A coordinate that depends on those before it gets
 * step 0. */
TK_API int tk_solve(const tk_system *system);

#ifdef __cplusplus
}
#endif
#endif
