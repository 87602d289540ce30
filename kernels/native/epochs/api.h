/* Stochastic epochs: they update the weights after each row or each batch of rows. */
#ifndef TUSK_EPOCHS_API_H
#define TUSK_EPOCHS_API_H

#include "../linear/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows that a sampler drew for an epoch, in its order. Group g visits rows[begin[g]] to
 * rows[begin[g + 1] - 1], numbers of its rows from 0. sizes: of its batches, from
 * sizes[first[g]] on; NULL: all have batch_size rows. */
typedef struct tk_drawn {
    const int64_t *rows;
    const int64_t *begin; /* (n_groups + 1,) */
    const int32_t *sizes;
    const int64_t *first; /* (n_groups + 1,) */
} tk_drawn;
typedef struct tk_epoch {
    int32_t batch_size;
    int32_t power; /* step schedule: step / t^(power/2), t = 1 + epochs done, with fractions */
    double epochs_done; /* also selects the shuffle of the seed */
    double l1, l2;
    const double *step;          /* (n_groups,) */
    const double *shift, *scale; /* (n_groups, d) */
    const double
        *frequency; /* sparse: (n_groups, d) share of rows with the feature; NULL: no penalty */
    uint64_t seed;
    int32_t shuffle;       /* 0: rows in stored order; 1: runs of eight rows in random order */
    const tk_drawn *drawn; /* for tk_sgd: which rows it visits; NULL: all of them */
    /* For rows that are one part of a group: the number of rows that the epoch has visited in
     * other parts, the number of rows of all parts (0: there are no other parts), and the mean
     * weight of the rows of all parts. */
    int64_t rows_before, rows_of_all;
    double mean_weight;
} tk_epoch;
/* One epoch. weights: in and out, in coordinates of z. average: mean of the weights over the
 * epoch (sparse rows: over its second half), or NULL. loss: (n_groups,) sum of the losses, each
 * taken before its own update. */
TK_API int tk_sgd(const tk_pass *pass, const tk_epoch *epoch, double *weights, double *average,
                  double *loss);
/* The same for several classes, whose weights are of shape (n_groups, n_classes, d + 1); for
 * sparse rows average gets the last weights instead of a mean. reference: whether the first
 * class keeps its weights; else it keeps its intercept. */
TK_API int tk_softmax_sgd(const tk_pass *pass, const tk_softmax *softmax, const tk_epoch *epoch,
                          int reference, double *weights, double *average, double *loss);
/* Like tk_sgd, but several threads update one shared model without locks. batch_size 1 is
 * HOGWILD!, larger batches are HogBatch. The average covers each thread's views of the model. */
TK_API int tk_hogwild(const tk_pass *pass, const tk_epoch *epoch, double *weights, double *average,
                      double *loss);
/* One SVRG epoch. anchor: weights in coordinates of z; full: the mean gradient over all rows at
 * the anchor, without penalty, in coordinates of z. */
TK_API int tk_svrg(const tk_pass *pass, const tk_epoch *epoch, const double *anchor,
                   const double *full, double *weights, double *average);
/* The runs of neighbouring rows that an epoch visits, in order. Run i starts at row places[i] of
 * its group and has rows[i] rows. Group g has runs offset[g] to offset[g + 1] - 1. A call with
 * places NULL fills only offset. */
TK_API int tk_runs(const tk_pass *pass, const tk_epoch *epoch, int64_t *offset, int64_t *places,
                   int32_t *rows);

#ifdef __cplusplus
}
#endif
#endif
