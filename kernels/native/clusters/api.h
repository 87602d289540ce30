/* Clusters of rows, one set of centres per group.
 *
 * The objective is the mean over rows, weighted if they have weights, of min_j |x - c_j|^2
 * (MacQueen, Some methods for classification and analysis of multivariate observations, 1967).
 * Centres start as rows that are drawn by their weight times their squared distance to the centres
 * before, the best of 2 + log(clusters) draws each time (Arthur and Vassilvitskii, k-means++: the
 * advantages of careful seeding, SODA 2007). Lloyd's iterations (Least squares quantization in
 * PCM, IEEE Trans. Inf. Theory 28, 1982) run until no row changes its centre, and a centre without
 * rows moves to the row that lies farthest from its own. Of several starts the best is kept.
 *
 * Large groups train by mini-batches: Lloyd's iterations on a sample choose among the starts, each
 * batch moves the centres by the means of its rows, with weights that count all rows before
 * (Sculley, Web-scale k-means clustering, WWW 2010), and Lloyd's iterations on all rows finish.
 *
 * Rows are ordered by a seeded hash of their content, and equal ones become one with the sum of
 * their weights, so that a result depends on neither the order of rows nor whether they repeat.
 * Distances of dense rows are sums of squared differences, which keep their digits far from 0.
 */
#ifndef TUSK_CLUSTERS_API_H
#define TUSK_CLUSTERS_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tk_clusters_algorithm {
    TK_CLUSTERS_AUTO = 0, /* mini-batches above TK_CLUSTERS_LARGE different rows */
    TK_CLUSTERS_LLOYD = 1,
    TK_CLUSTERS_MINIBATCH = 2
};
#define TK_CLUSTERS_LARGE 100000
#define TK_CLUSTERS_MOST 10000 /* centres */
#define TK_CLUSTERS_POINTS 200 /* rows of a history, which is thinned */

enum tk_clusters_ending {
    TK_CLUSTERS_FIXED = 0,       /* no row changed its centre, or the loss no longer fell */
    TK_CLUSTERS_TOLERANCE = 1,   /* the loss fell by less than epsilon */
    TK_CLUSTERS_ITERATIONS = 2,  /* max_iter was reached */
    TK_CLUSTERS_LATE = 3,        /* the deadline of the pass was over */
    TK_CLUSTERS_FEW = 4,         /* fewer different rows than clusters: each is a centre */
    TK_CLUSTERS_OUT_OF_RANGE = 5 /* squared distances are not finite: no centres */
};

typedef struct tk_clusters {
    int32_t clusters;
    int32_t starts;
    int32_t algorithm; /* enum tk_clusters_algorithm */
    int32_t max_iter;
    int32_t batch_size;
    int32_t standardize; /* whether features are divided by their deviation */
    double epsilon;      /* the share of the loss; below 0: 0 or 1e-6, by the algorithm */
    uint64_t seed;
    const int64_t *place; /* (n_groups,) offset of the numbers of each group */
} tk_clusters;

/* Result of one group's training. */
typedef struct tk_clustered {
    double loss;        /* the mean squared distance of a row */
    int64_t centres;    /* as many as clusters, or fewer */
    int64_t iterations; /* passes over all rows, of the start that was kept */
    int64_t starts;     /* number finished */
    int64_t distinct;   /* distinct rows */
    int64_t algorithm;  /* the algorithm that ran */
    int64_t ending;     /* enum tk_clusters_ending */
} tk_clustered;

/* Trains centres for each group of a pass, whose groups may have different numbers of features.
 * `numbers` has for each group, if features are standardized, their scales, (d,), and then for
 * each centre the sum of the weights of its rows and its coordinates in the caller's units, by
 * falling weight and then by coordinates. `history`, (n_groups, TK_CLUSTERS_POINTS), has the
 * losses of iterations over all rows, NaN after the last one. No bit depends on the number of
 * threads or on the order of the rows. */
TK_API int tk_train_clusters(const tk_pass *pass, const tk_clusters *clusters, tusk_memory *memory,
                             double *numbers, double *history, tk_clustered *out);

#ifdef __cplusplus
}
#endif
#endif
