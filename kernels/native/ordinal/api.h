/* Ordinal regression: cumulative link models, one per group.
 *
 * With K ordered levels, P(y <= k | x) = G(theta_k - x.b), theta_1 < ... < theta_(K - 1), where G
 * is the logistic, the normal or the complementary log-log distribution function (McCullagh,
 * Regression models for ordinal data, J. R. Stat. Soc. B 42, 1980). The loss of a row of level k
 * is -log(G(theta_k - x.b) - G(theta_(k - 1) - x.b)), which is convex in (theta, b) for these
 * three (Pratt, Concavity of the log likelihood, J. Am. Stat. Assoc. 76, 1981). A row's offset is
 * added to x.b.
 *
 * Weights v of a group are the K - 1 thresholds, then the weights of z = (x - shift) * scale: q =
 * K - 1 + d numbers.
 */
#ifndef TUSK_ORDINAL_API_H
#define TUSK_ORDINAL_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tk_ordinal_link { TK_ORDINAL_LOGIT = 0, TK_ORDINAL_PROBIT = 1, TK_ORDINAL_CLOGLOG = 2 };

typedef struct tk_ordinal {
    int64_t n_levels;
    int32_t link;
    int32_t of_scores;           /* squares of scores instead of curvatures: 1 by the weights of
                                  * rows, 2 by their squares */
    const double *label;         /* (n_groups, n_levels), rising */
    const double *shift, *scale; /* (n_groups, d) */
} tk_ordinal;

/* out, shape (n_groups, 2 + q + q (q + 1) / 2): the sums of losses and of weights, the gradient by
 * v, and the lower triangle of the curvature by v, row by row; the first two alone, shape
 * (n_groups, 2), if pass->loss_only is set. The loss is infinite where thresholds do not rise. */
TK_API int tk_ordinal_sums(const tk_pass *pass, const tk_ordinal *how, const double *v,
                           double *out);
/* The lower triangle, row by row, of the sum over clusters of u u', u the sum of the gradients of
 * a cluster's rows by v; clusters, shape (n_groups,), gets their number. The rows have clusters.
 */
TK_API int tk_ordinal_clusters(const tk_pass *pass, const tk_ordinal *how, const double *v,
                               double *out, int64_t *clusters);
/* Decides whether the loss has an optimum, from Newton's step s at v. A direction u lowers no
 * term of the likelihood if theta_k - x.b does not fall along it in rows of level k, nor
 * theta_(k - 1) - x.b rise. out, shape (n_groups, 2): the least of these moves along -s, where
 * more than 0 proves that there is no optimum; and the largest share of a derivative that the
 * step takes away, where less than 1 proves that there is one: the rest of the derivatives then
 * are positive weights with which the moves of every u sum to 0. */
TK_API int tk_ordinal_reach(const tk_pass *pass, const tk_ordinal *how, const double *v,
                            const double *step, double *out);

#ifdef __cplusplus
}
#endif
#endif
