/* Factorization machines of second order, one per group, trained by a step per row.
 *
 * The margin of a row x is b + sum_i w_i x_i + sum_{i < j} <v_i, v_j> x_i x_j with vectors v_i of
 * `rank` numbers (Rendle, Factorization Machines, ICDM 2010, equation 1); its sum over pairs is
 * 1/2 sum_k ((sum_i v_ik x_i)^2 - sum_i v_ik^2 x_i^2) (lemma 3.1). The objective is the mean over
 * rows, weighted if they have weights, of
 *     loss(y, m) + sum_{i: x_i != 0} (l2 / 2 w_i^2 + l2_factors / 2 |v_i|^2),
 * so that a feature is penalised by the share of rows that have it, as in libFM (Rendle, ACM TIST
 * 3, 2012). Steps are those of gradient descent, at the rate learning_rate / sqrt(epoch), or of
 * AdaGrad (Duchi, Hazan and Singer, JMLR 12, 2011) with one sum of squares for each w_i and one
 * for each v_i, of the mean of its elements, so that a feature's numbers share a cache line.
 *
 * Units. Features that all rows have are centred and scaled to the deviation 1, dense ones too.
 * Another sparse feature is divided by the root mean square of its values that are not 0; values
 * that are all 1 stay. Labels that are
 * numbers are centred and scaled. Penalties are of weights in these units; results are in the
 * caller's.
 */
#ifndef TUSK_FM_API_H
#define TUSK_FM_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 1/2 (m - y)^2; log(1 + exp(-y m)). */
enum tk_fm_loss { TK_FM_SQUARED = 0, TK_FM_LOGISTIC = 1 };
enum tk_fm_algorithm { TK_FM_ADAGRAD = 0, TK_FM_SGD = 1 };
enum tk_fm_ending {
    TK_FM_DONE = 0,
    TK_FM_PATIENCE = 1,
    TK_FM_DIVERGED = 2,
    TK_FM_OUT_OF_RANGE = 3, /* features or labels have no deviation in doubles: not trained */
    TK_FM_LATE = 4          /* the deadline of the pass was over */
};

typedef struct tk_fm {
    int32_t loss, algorithm; /* of the enums above */
    int32_t rank;
    int32_t epochs;
    int32_t patience;  /* epochs without a lower held-out loss after which training ends */
    int32_t lock_free; /* whether threads update the weights of a large group without locks
                        * (Niu, Recht, Re and Wright, HOGWILD!, NIPS 2011); else one thread does */
    double learning_rate;
    double entries; /* mean number of a row's entries above which steps are shorter in
                     * proportion, since all of them move its margin; 0: no limit */
    double l2, l2_factors;
    double init; /* standard deviation of the initial vectors, which are uniform around 0 */
    uint64_t seed;
    tusk_group *held;        /* (n_groups,) held-out rows, or NULL; modified like the others */
    const uint8_t *left_out; /* (n_groups,) nonzero: the group is not trained; or NULL */
    const int64_t *place;    /* (n_groups,) offset of the numbers of each group */
} tk_fm;

/* Result of one group's training. */
typedef struct tk_fm_trained {
    double intercept;
    double base_loss; /* mean training loss of the best constant */
    double loss;      /* the objective at the result, over the training rows */
    double held_loss; /* lowest mean held-out loss; NaN without held-out rows */
    int64_t epochs;   /* number that ran */
    int64_t kept;     /* epochs of the result */
    int64_t ending;   /* enum tk_fm_ending */
} tk_fm_trained;

/* Bytes of memory for the training of one group of d features, in addition to its rows. */
TK_API int64_t tk_fm_bytes(const tk_fm *fm, int64_t d);
/* Trains a machine for each group of a pass, whose groups may have different numbers of
 * features. The rows must be copies for this training: they are modified in place. `numbers`
 * has for each feature i of each group w_i and v_i, 0 for an id that no row has; `history`,
 * (n_groups, epochs), the mean loss of each epoch's rows before their steps, NaN after the last
 * one. Without lock_free, no bit depends on the number of threads. */
TK_API int tk_train_fms(const tk_pass *pass, const tk_fm *fm, tusk_memory *memory, double *numbers,
                        double *history, tk_fm_trained *trained);

#ifdef __cplusplus
}
#endif
#endif
