/* Dense neural nets, one per group, trained by steps over batches of rows.
 *
 * Objective: mean loss(y, m(x)) over the rows, weighted if rows have weights, with m = W_L a_{L-1}
 * + b_L, a_l = g(W_l a_{l-1} + b_l) and a_0 = (x - mean) / deviation, feature by feature. A step's
 * gradient is that of sum(w_i loss_i) / n over the n rows of its batch, with weights of mean 1
 * over all rows. Its gradient comes by back-propagation (Rumelhart, Hinton and Williams, Nature
 * 323, 1986). Steps are those of Adam (Kingma and Ba, ICLR 2015, algorithm 1) or of gradient
 * descent with momentum, both with decoupled weight decay (Loshchilov and Hutter, ICLR 2019,
 * algorithms 1 and 2). Dropout scales what stays (Srivastava et al., JMLR 15, 2014, section 10).
 * Weights and biases start uniform within 1 / sqrt(inputs) of 0, as PyTorch's linear layers do,
 * which is a third of the variance of LeCun et al. (Efficient BackProp, 1998, section 4.6).
 *
 * Categories may be embedded (Guo and Berkhahn, Entity Embeddings of Categorical Variables, 2016):
 * a_0 then has the features outside of tables, and of each table the vector of the row's level,
 * which is trained like the weights. Vectors start uniform within 1 of 0. In the result they are
 * centred on the mean of the training rows, so that a level that is not known, whose vector is 0,
 * counts as an average row. Steps may be sparse: then vectors of levels that a batch does not have
 * keep their values and the means of their gradients, as in PyTorch's SparseAdam.
 */
#ifndef TUSK_NETS_API_H
#define TUSK_NETS_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TK_MOST_HIDDEN 8

/* 1/2 (m - y)^2; log(1 + exp(-y m)); log sum_k exp(m_k) - m_y. */
enum tk_net_loss { TK_NET_SQUARED = 0, TK_NET_LOGISTIC = 1, TK_NET_SOFTMAX = 2 };
enum tk_net_activation { TK_NET_RELU = 0, TK_NET_TANH = 1, TK_NET_GELU = 2 };
enum tk_net_algorithm { TK_NET_ADAM = 0, TK_NET_SGD = 1 };
enum tk_net_schedule { TK_NET_CONSTANT = 0, TK_NET_COSINE = 1, TK_NET_STEPS = 2 };
enum tk_net_ending {
    TK_NET_DONE = 0,
    TK_NET_PATIENCE = 1,
    TK_NET_DIVERGED = 2,
    TK_NET_OUT_OF_RANGE = 3, /* inputs or labels have no deviation in doubles: not trained */
    TK_NET_LATE = 4, /* the time was over; if before the first step, there are no weights */
    TK_NET_WORSE = 5 /* above the loss of `start`, whose weights are the result */
};

typedef struct tk_net {
    int32_t loss, activation, algorithm, schedule; /* of the enums above */
    int32_t outputs;                               /* number of margins of a row */
    int32_t n_hidden;                              /* hidden layers, at most TK_MOST_HIDDEN */
    int32_t width[8];                              /* units of each hidden layer */
    int32_t epochs;
    int32_t batch;
    int32_t patience;    /* epochs without a lower held-out loss after which training ends */
    int32_t decay_every; /* epochs between the decays of the schedule by steps */
    int32_t shuffle;     /* whether each epoch has its own order */
    int32_t standardise; /* whether inputs, and labels that are numbers, are centred and scaled */
    double learning_rate, decay; /* decay: the factor of the schedule by steps */
    double momentum;             /* for gradient descent */
    double weight_decay;
    double dropout; /* the probability that a hidden unit is left out */
    uint64_t seed;
    const double *label;     /* (n_groups, outputs), rising: the classes of TK_NET_SOFTMAX */
    const double *start;     /* (n_groups, weights) to start from, or NULL */
    const tusk_group *held;  /* (n_groups,) held-out rows, or NULL */
    const uint8_t *left_out; /* (n_groups,) nonzero: the group is not trained; or NULL */
    /* (n_tables, 3), rising: the first feature of each table, its levels and the length of its
     * vectors. In a row at most one of its features is not 0. */
    const int32_t *table;
    /* (n_groups, classes) weights of the losses of the classes, or NULL; they are scaled so that
     * the training rows have the mean 1 */
    const double *class_weight;
    double seconds; /* limit for all groups; 0: none */
    int64_t n_tables;
    int64_t sparse; /* whether a step changes only the vectors of the levels of its batch */
} tk_net;

/* Result of one group's training. */
typedef struct tk_net_trained {
    double base_loss; /* mean training loss of the best constant */
    double loss;      /* mean training loss of the result */
    double held_loss; /* lowest mean held-out loss; NaN without held-out rows */
    int64_t epochs;   /* number that ran */
    int64_t kept;     /* epochs of the result */
    int64_t ending;   /* enum tk_net_ending */
} tk_net_trained;

/* Number of weights of a net of d features: for each level of each table its vector; then for
 * each unit of each layer the bias and the weight of each input. The inputs of the first layer
 * are the features outside of tables and then the vectors, table by table. */
TK_API int64_t tk_net_weights(const tk_net *net, int64_t d);
/* Bytes of memory for the training of one group of n rows, without the held-out rows. */
TK_API int64_t tk_net_bytes(const tk_net *net, int64_t n, int64_t d);
/* Trains a net for each group of a pass of dense rows. `weights` is (n_groups, weights), for
 * inputs and labels in the caller's units. `history`, (n_groups, epochs), has for each epoch
 * the mean loss of its batches before their steps, NaN after the last one. Gradients of a batch
 * are summed in parts that depend on its size alone, so no bit depends on the number of
 * threads. */
TK_API int tk_train_nets(const tk_pass *pass, const tk_net *net, tusk_memory *memory,
                         double *weights, double *history, tk_net_trained *trained);
/* The gradient of one group's mean training loss at `start`, without any step, in the layout of
 * weights. */
TK_API int tk_net_gradient(const tk_pass *pass, const tk_net *net, double *out);

/* A visit to a part of a group's rows, by a net that goes from part to part with its state: the
 * weights in the kernels' layout, and the two numbers per weight of its steps, (3, floats).
 * Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
 * Learning, PVLDB 2021, section 4.2, sequential. */
typedef struct tk_net_visit {
    const double *units; /* shifts and scales (2, d) of features outside of tables, shift and
                          * scale of labels, and a factor of the rows' weights, equal in all
                          * parts */
    int64_t epoch;
    int64_t part;        /* index of the part */
    int64_t rows_before; /* number of rows that this epoch has visited in other parts */
    int64_t steps;       /* total steps of the state; a visit adds its own */
    int64_t late;        /* set to 1 where the time was over */
    double loss;         /* set to the sum of losses, in the net's units */
    double weight;       /* set to the sum of the weights of the rows */
} tk_net_visit;

/* Floats of the weights of a net of d features in the kernels' layout. */
TK_API int64_t tk_net_floats(const tk_net *net, int64_t d);
/* The state (3, floats) of a net before its first step; `d` features. */
TK_API int tk_net_begin(const tk_net *net, const tk_net_visit *visit, int64_t d, float *state);
/* Steps over the rows of the pass's only group, a part of all: those of an epoch of
 * `tk_train_nets` over the parts one after another, if each part's number of rows is a multiple
 * of the batch. The order of the rows within a part is its own. */
TK_API int tk_visit_net(const tk_pass *pass, const tk_net *net, tusk_memory *memory,
                        tk_net_visit *visit, float *state);
/* Computes the losses of the rows of the pass's only group, without any step. */
TK_API int tk_net_losses(const tk_pass *pass, const tk_net *net, tusk_memory *memory,
                         tk_net_visit *visit, const float *state);
/* Moments of the rows of the pass's only group: the means and then the deviations of the
 * features outside of tables, and for each table the weights of the rows of each level, and of
 * rows without a level. Returns the count of these numbers; out may be NULL. */
TK_API int64_t tk_net_moments(const tk_pass *pass, const tk_net *net, double *out);
/* Shifts the vectors of tables in a state to mean 0 over all rows, without changing a margin.
 * count: the last of the moments, summed over the parts; total: of the rows' weights. */
TK_API int tk_net_centre(const tk_net *net, int64_t d, const double *count, double total,
                         float *state);
/* The weights in the layout and the units of the caller. */
TK_API int tk_net_end(const tk_net *net, const tk_net_visit *visit, int64_t d, const float *state,
                      double *weights);

/* A net on several workers: each has its layers, its own rows, and some of the vectors of tables.
 * A batch has a fixed number of pieces, whose gradients are added by pairs, so that no bit depends
 * on who computes which piece. The numbers of rows are in the net's units, as `tk_net_rows` says.
 * Source: M. Naumov et al., Deep Learning Recommendation Model for Personalization and
 * Recommendation Systems, 2019, section 4. */

/* Pieces of a batch on a worker, concatenated. `net` has for each table a level for each vector
 * that these rows read; a level that two pieces read is duplicated. */
typedef struct tk_net_pieces {
    const float *weights;        /* in the kernels' layout: of the layers, and these vectors */
    const float *x, *y, *weight; /* the rows; weight: or NULL */
    const int64_t *begin;        /* (n + 1,) the first row of each piece, and the number of rows */
    int64_t n;
    int64_t first;     /* the number of the first piece */
    int64_t rows;      /* of the batch on all workers */
    int64_t epoch;     /* for the dropout */
    int64_t step;      /* within the epoch: for the dropout */
    float *gradient;   /* set to the sum of the gradients by the layers; NULL: losses alone */
    float *by_vectors; /* those by the vectors, at the vectors' offsets after the layers */
    double *loss;      /* (n,) set to the sums of losses, in the net's units */
} tk_net_pieces;
/* Vectors of a worker; the i-th one has floats `start[i]` to `start[i + 1]`. */
typedef struct tk_net_held {
    int64_t n;
    const int64_t *start; /* (n + 1,) */
    float *numbers;       /* (3, start[n]): weights, and the two numbers per weight of the steps */
    int32_t *first;       /* (n,) scratch memory: -1 before and after */
} tk_net_held;
/* The vectors that a batch reads, and the concatenated gradients, which are modified. */
typedef struct tk_net_read {
    const int32_t *which; /* (n,) vectors, those of a piece before those of the next */
    int64_t n;
    float *gradient;
} tk_net_read;
typedef struct tk_net_room tk_net_room;

/* Floats from one row to the next for a net of d features: plain features, for each table the
 * number of the level or -1, and zeros. */
TK_API int64_t tk_net_stride(const tk_net *net, int64_t d);
/* Floats of the layers, which precede the vectors of tables; these begin at multiples of 16. */
TK_API int64_t tk_net_layers(const tk_net *net, int64_t d);
/* Copies the rows of the pass's only group: x (n, stride), labels y (n,) and, unless NULL, their
 * weights (n,). */
TK_API int tk_net_rows(const tk_pass *pass, const tk_net *net, tusk_memory *memory,
                       const tk_net_visit *visit, float *x, float *y, float *weight);
/* Memory for `pieces` pieces of a net of d features, for the duration of its training. */
TK_API int tk_net_room_open(const tk_net *net, int64_t d, int64_t pieces, tusk_memory *memory,
                            tk_net_room **room);
TK_API void tk_net_room_close(tk_net_room *room);
/* Losses and gradients of pieces; d: the features of `net`. */
TK_API int tk_net_pieces_pass(tk_net_room *room, const tk_net *net, int64_t d, int threads,
                              int64_t cancel_mark, const tk_net_pieces *pieces);
/* A step of the layers (3, floats of the layers); steps: count including this one. */
TK_API int tk_net_step_layers(const tk_net *net, int64_t d, int64_t epoch, int64_t steps,
                              const float *gradient, float *layers);
/* A step of vectors. */
TK_API int tk_net_step_held(const tk_net *net, int64_t epoch, int64_t steps,
                            const tk_net_held *held, const tk_net_read *read);
/* Copies runs of numbers, the i-th one of `length[i]` numbers at `at[i]`, into a contiguous
 * array, and back. */
TK_API void tk_net_gather(const float *numbers, const int64_t *at, const int32_t *length,
                          int64_t n, float *out);
TK_API void tk_net_scatter(float *numbers, const int64_t *at, const int32_t *length, int64_t n,
                           const float *given);

#ifdef __cplusplus
}
#endif
#endif
