/* The kernels' whole interface: plain C, called from Python with the GIL released.
 *
 * A pass reads the rows of a batch of groups that share one number of features d and one kind of
 * storage. Weights are double, of shape (n_groups, d + 1), the intercept last, C order; so is
 * everything with one item a weight. Sums over rows are taken in chunks whose borders depend on
 * the rows alone, so results do not depend on threads (the lock-free kernels excepted).
 *
 * Coordinates. Rows are stored as they came. Where a kernel takes shift and scale, of shape
 * (n_groups, d), it works on z = (x - shift) * scale, with v the weights of z: w = v * scale, b =
 * v_d - w.shift (0 for sparse rows).
 *
 * Every function returns TK_OK or one of the codes below.
 */
#ifndef TUSK_API_H
#define TUSK_API_H

#include <stdint.h>

#include "../../kvstore/native/frames.h"
#include "../rowblock/rowblock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TK_API __attribute__((visibility("default")))

enum tk_code {
    TK_OK = 0,
    TK_CANCELLED = 1,
    TK_NO_MEMORY = 2,
    TK_DISK_FULL = 3,
    TK_LOSS_FAILED = 4, /* a loss of the caller's did not return 0 */
    TK_OUT_OF_TIME = 5  /* a deadline has passed; what was to be written is of no use */
};

/* size bytes for what is kept beside rows, aligned to 64 and charged to their account (NULL: to
 * the heap), where they may lie in its spill file. */
typedef struct tk_charged tk_charged;
TK_API int tk_charged_new(tusk_memory *memory, int64_t size, tk_charged **out, void **at);
TK_API void tk_charged_free(tk_charged *charged);
TK_API void tk_memory_use(tusk_memory *memory, tusk_memory_use *use);
/* A training of the calling thread, whose arrays count in the account, floor bytes at least being
 * allowed; opened and closed in the order of a stack. NULL: no memory. Its handler is NumPy's
 * PyDataMem_Handler, which stays good after the end. */
typedef struct tk_working tk_working;
TK_API tk_working *tk_working_open(tusk_memory *memory, int64_t floor);
TK_API void *tk_working_handler(tk_working *working);
TK_API void tk_working_close(tk_working *working);

typedef struct tk_pass {
    const tusk_group *groups;
    int64_t n_groups;
    const double *positive; /* (n_groups,) the label that counts as +1; unused for squared loss */
    const double *class_weight; /* (n_groups, 2) weights of the -1 and the +1 examples */
    int32_t loss;               /* 0 squared, 1 logistic, 2 hinge */
    int32_t fit_intercept;
    double smoothing; /* of the hinge's corner; 0: none */
    int32_t threads;
    int32_t loss_only;   /* tk_gradient: the first two sums alone, out of shape (n_groups, 2) */
    int32_t stride;      /* read every stride-th chunk or partition only; 1: all rows */
    int64_t cancel_mark; /* tk_cancel_count() when the training began; -1: cannot be cancelled */
    double deadline; /* of tk_curvature, in seconds of the monotonic clock; 0: none. Other passes
                        are short enough for their callers to look at the clock between them */
} tk_pass;

/* --- threads and cancelling --- */
TK_API int tk_version(void);
/* Cancels what runs: trainings whose cancel_mark is older stop within milliseconds. Safe in a
 * signal handler. */
TK_API void tk_cancel(void);
TK_API int64_t tk_cancel_count(void);
/* While any training runs, SIGINT cancels it and is then handled as before. Calls nest. */
TK_API void tk_watch_sigint(int on);
/* A host that handles signals itself, such as a database server: interrupted() is asked often, on
 * the thread that called a kernel only, and cancels what runs by not returning 0. Takes the place
 * of watching SIGINT. */
TK_API void tk_watch_host(int (*interrupted)(void));

/* --- statistics --- */
typedef struct tk_label_stats {
    double low, high;       /* smallest and largest label */
    int64_t n_rows, n_high; /* all rows, and those with the largest */
    int64_t third_row; /* 1-based first row with a label that is neither, 0: none (squared: always
                          0) */
    double third;
    double mean, variance;
} tk_label_stats;
TK_API int tk_labels(const tk_pass *pass, tk_label_stats *out);
/* Mean and standard deviation (0: constant) of dense features, shape (n_groups, d), of at most
 * `sample` rows a group. */
TK_API int tk_feature_moments(const tk_pass *pass, int64_t sample, double *mean,
                              double *deviation);
/* Rows in which each sparse feature occurs and its largest |value|, shape (n_groups, d). */
TK_API int tk_feature_counts(const tk_pass *pass, double *count, double *largest);
/* Whether the largest sparse value of each group's first segment is between 1/16 and 16 in size:
 * 1, or 2 where some values other than 0 are not within a factor of TK_NEAR_ONE of 1. */
#define TK_NEAR_ONE 256
TK_API int tk_values_near_one(const tk_pass *pass);
TK_API int64_t tk_nonzeros(const tusk_group *group);

/* --- batch passes --- */
/* out, shape (n_groups, d + 3): sum of losses, rows read, gradient sums (d features, then
 * intercept). */
TK_API int tk_gradient(const tk_pass *pass, const double *weights, double *out);
/* The same behind which the lower triangle of sum(h z z') follows row by row, z with a last
 * coordinate 1: shape (n_groups, d + 3 + (d + 1)(d + 2)/2). Gradient in caller's coordinates,
 * curvature in those of z; rows of floats multiply in float unless `precise`, 64 at a time. */
TK_API int tk_curvature(const tk_pass *pass, const double *weights, const double *shift,
                        const double *scale, int precise, double *out);
/* sum(h_i (x_i.u + u_b) (x_i, 1)) for directions u, shape (n_groups, d + 1), and so is out: the
 * curvature times u, in the caller's coordinates. h: those of a group from offset[g] on, in the
 * order in which the pass reads its rows; NULL for the squared loss, whose h are 1. With weights
 * not NULL h is computed there and kept, and diagonal, shape (n_groups, d + 2), gets sum(h_i
 * x_i^2), of dense rows sum(h_i), and behind the features sum(h_i) and the number of rows. */
TK_API int tk_curvature_times(const tk_pass *pass, const double *weights, const double *direction,
                              const int64_t *offset, double *h, double *out, double *diagonal);
/* How far margins y m, y = -1 or 1, are from 0 and how they move along a direction: out, shape
 * (n_groups, 4), gets over each group's rows the least y (x.w + b), the least and the largest
 * y (x.u + u_b), and the largest |x.u + u_b| / (1 + exp(-y (x.w + b))). */
TK_API int tk_margin_reach(const tk_pass *pass, const double *weights, const double *direction,
                           double *out);
/* A loss of the caller's own: fills loss, its derivative and, unless NULL, its curvature by the
 * margin, each (n,), from margins and labels (n,), which are -1 and 1 where pass->loss is one of
 * classes. Not 0: it failed. */
typedef int (*tk_loss)(const double *margin, const double *label, int64_t n, double *loss,
                       double *derivative, double *curvature);
typedef struct tk_open {
    tk_loss loss;          /* NULL: the pass's own */
    int32_t any_thread;    /* 0: it is called on the caller's thread only, for up to 65,536 rows */
    const int64_t *offset; /* (n_groups + 1,) */
    const int64_t *row;    /* (offset[n_groups],) each group's rows to read, from 0; NULL: all */
    const double *weight;  /* of these rows; NULL: 1 */
    int32_t *answered; /* 1: by the last call of loss, which was not broken off; NULL: C's own */
} tk_open;
/* tk_gradient, or with `curvature` tk_curvature (shift and scale are used then), of such rows. */
TK_API int tk_open_pass(const tk_pass *pass, const tk_open *open, const double *weights,
                        const double *shift, const double *scale, int curvature, double *out);
/* Solves H step = gradient by Cholesky for each group, H's lower triangle row by row, `stride`
 * doubles from one group's to the next. A coordinate that depends on those before it gets step 0.
 * rank: (n_groups,) coordinates that do not; pivot: (n_groups,) the smallest of their pivots
 * relative to H's diagonal, near 0 when H is ill-conditioned; inverse_diagonal: (n_groups, p), NaN
 * for dependent coordinates, not computed when NULL. cancel_mark and deadline as in tk_pass. */
TK_API int tk_solve(int64_t n_groups, int64_t p, const double *hessian, int64_t stride,
                    const double *gradient, double *step, int64_t *rank, double *pivot,
                    double *inverse_diagonal, int threads, int64_t cancel_mark, double deadline);

/* --- stochastic epochs --- */
typedef struct tk_epoch {
    int32_t batch_size;
    int32_t power; /* step schedule: step / t^(power/2), t = epochs done + 1, fractions included */
    double epochs_done; /* also: which shuffle of the seed */
    double l1, l2;
    const double *step;          /* (n_groups,) */
    const double *shift, *scale; /* (n_groups, d) */
    const double
        *frequency; /* sparse: (n_groups, d) rows with the feature / rows; NULL: no penalty */
    uint64_t seed;
    int32_t shuffle; /* 0: rows in their order; 1: runs of eight rows in random order */
} tk_epoch;
/* One epoch. weights in coordinates of z, in and out; average: mean of the weights over
 * the epoch; loss: (n_groups,) sum of losses, each before its own update. */
TK_API int tk_sgd(const tk_pass *pass, const tk_epoch *epoch, double *weights, double *average,
                  double *loss);
/* The same by several threads on one shared model without locks; batch_size 1 is HOGWILD!, more is
 * HogBatch. The average is over each thread's views of the model. */
TK_API int tk_hogwild(const tk_pass *pass, const tk_epoch *epoch, double *weights, double *average,
                      double *loss);
/* One SVRG epoch: anchor (weights of z) and its full mean gradient (without penalty, in
 * coordinates of z). */
TK_API int tk_svrg(const tk_pass *pass, const tk_epoch *epoch, const double *anchor,
                   const double *full, double *weights, double *average);

/* --- dual coordinate descent --- */
/* The hinge with l2 > 0 by its dual (dual.cpp), in coordinates of z = x - shift; weights are those
 * of z. Each array with an item a row has a group's from offset[g] on, in the order in which the
 * pass reads them. */
typedef struct tk_dual_group {
    int64_t n_rows, in_use;  /* rows, and how many of them have not been shrunk */
    double rho, centre;      /* the intercept's penalty is rho/2 (b - centre)^2 */
    double most, least;      /* projected gradients beyond which rows are shrunk */
    uint64_t random;         /* state of the generator */
    double objective, bound; /* tk_dual_check: at the best intercept; below every objective */
    double intercept;        /* the same: the best for these weights */
    double gained;           /* by which the last tk_dual_epoch raised the dual, about */
} tk_dual_group;
typedef struct tk_dual {
    double l2;
    double tolerance;      /* difference of projected gradients at which a sweep is the last */
    const double *shift;   /* (n_groups, d) */
    const int64_t *offset; /* (n_groups,) */
    double *alpha;         /* (rows,) from 0 to the row's class weight */
    double *norm;          /* (rows,) ||z||^2 */
    double *margin;        /* (rows,) w.z: scratch */
    int32_t *order;        /* (rows,) numbers of the rows, those in use first */
    int8_t *sign;          /* (rows,) the class */
    tk_dual_group *groups; /* (n_groups,) random and centre are the caller's */
} tk_dual;
/* Fills what lies in the arrays for alpha = 0. */
TK_API int tk_dual_start(const tk_pass *pass, tk_dual *dual);
/* Sweeps that look at as many coordinates as there are rows, or fewer if nothing moves; weights
 * (n_groups, d + 1) in and out. */
TK_API int tk_dual_epoch(const tk_pass *pass, tk_dual *dual, double *weights);
TK_API int tk_dual_check(const tk_pass *pass, tk_dual *dual, const double *weights);

/* The hinge by an interior-point method (interior.cpp). Each array with an item a row has a
 * group's from offset[g] on, in the order in which the pass reads them. */
enum tk_interior_mode {
    TK_AFFINE = 0,    /* towards the optimum itself */
    TK_CORRECTED = 1, /* towards where all products of a variable and its slack are `target` */
    TK_DUAL_LOW = 2,  /* of tk_interior_slopes: the dual variables of the class -1 */
    TK_DUAL_HIGH = 3
};
typedef struct tk_interior_group {
    int64_t n_rows;
    double target;  /* the caller's */
    double step;    /* the longest that leaves all variables at least 0, at most 1.01 */
    double product; /* mean product of variables and their slacks, after that step or as it is */
    double loss;    /* mean hinge */
    double total;   /* mean dual variable */
} tk_interior_group;
typedef struct tk_interior {
    const int64_t *offset; /* (n_groups,) */
    double *alpha;         /* (rows,) dual variables, between 0 and the row's class weight */
    double *slack;         /* (rows,) y m + excess - 1 > 0 */
    double *excess;        /* (rows,) > 0: what the hinge is at most */
    double *affine, *move; /* (rows,) change of the margin, by mode */
    double *slope;         /* (rows,) scratch: what tk_interior_slopes leaves */
    double *curvature;     /* (rows,) scratch */
    int8_t *sign;          /* (rows,) the class */
    tk_interior_group *groups;
} tk_interior;
/* Fills what lies in the arrays for margins of weights (n_groups, d + 1). */
TK_API int tk_interior_start(const tk_pass *pass, tk_interior *rows, const double *weights);
/* Each row's share of the right side, and its curvature, by mode. */
TK_API int tk_interior_slopes(const tk_pass *pass, tk_interior *rows, int mode);
/* (n_groups, d + 3): like tk_gradient, sums of the slopes times the rows; loss is 0. */
TK_API int tk_interior_gradient(const tk_pass *pass, const tk_interior *rows, double *out);
/* The same and the curvature like tk_curvature, all in double. */
TK_API int tk_interior_curvature(const tk_pass *pass, const tk_interior *rows, const double *shift,
                                 const double *scale, double *out);
/* Changes of the margins by changes of the weights, by mode; and how far to go. */
TK_API int tk_interior_aim(const tk_pass *pass, tk_interior *rows, const double *weights,
                           int mode);
/* Moves all variables by `step` of each group. */
TK_API int tk_interior_move(const tk_pass *pass, tk_interior *rows);

/* --- order --- */
/* Copies each group's rows in the order of a seeded hash of their content: the same order whatever
 * order they came in, and a uniform shuffle. The first held_out[g] rows go to held, the others to
 * kept; both own their segments. */
TK_API int tk_shuffle(const tk_pass *pass, tusk_memory *memory, uint64_t seed,
                      const int64_t *held_out, tusk_group *kept, tusk_group *held);
TK_API void tk_free_groups(tusk_group *groups, int64_t n);

/* --- many small groups --- */
/* Whether the rows of most of the dense groups lie in several segments. */
TK_API int tk_scattered(const tk_pass *pass);
/* Copies dense groups of one kind and width, each into one segment at memory + place[g], which has
 * room for its header, labels and values and is aligned to 8 bytes. The copies own nothing. */
TK_API int tk_gather(const tk_pass *pass, void *memory, const int64_t *place, tusk_group *out);

/* --- sparse rows with few of many ids --- */
/* The ids that occur in a group of sparse rows, rising: *ids, (*n,), in memory of *out. */
TK_API int tk_ids_that_occur(const tusk_group *group, tusk_memory *memory, int64_t mark,
                             tk_charged **out, int32_t **ids, int64_t *n);
/* Copies the group, each id as its place in ids; tk_free_groups frees the copy. */
TK_API int tk_renumber(const tusk_group *group, tusk_memory *memory, int64_t mark,
                       const int32_t *ids, int64_t n, tusk_group *out);

/* --- rows for a device --- */
/* Copies dense rows, one group's behind the other's, into values (n_rows, d) and labels (n_rows,).
 * start: (n_groups,) rising places of each group's first row; places from `first` on, n_rows of
 * them, are written, zeros where no row is. */
TK_API int tk_copy_rows(const tk_pass *pass, const int64_t *start, int64_t first, int64_t n_rows,
                        void *values, double *labels);
/* The runs of neighbouring rows that an epoch visits, in its order: place and rows of each, a
 * group's from offset[g] to offset[g + 1], which a call with places NULL fills. Places are within
 * the group. */
TK_API int tk_runs(const tk_pass *pass, const tk_epoch *epoch, int64_t *offset, int64_t *places,
                   int32_t *rows);

/* --- models whose weights live in a store --- */

/* Codes of this section, besides those above. */
enum tk_stored_code {
    TK_STORE_FAILED = 16,    /* a sentence is in error */
    TK_STORE_CORRUPT = 17,   /* the same */
    TK_CHUNK_TOO_LARGE = 18, /* the payloads of one chunk, or of one row, do not fit */
    TK_BAD_PLACE = 19        /* a slot that its key's payload does not have */
};

/* The sparse rows of one group, cut into chunks of neighbours. A chunk's payloads are in memory
 * while it is trained; in its rows feature ids are replaced by places in these payloads, once. */
typedef struct tk_chunks tk_chunks;

/* Chunks of rows_per_chunk rows, fewer where the payloads of a chunk would take more than
 * most_bytes: weight_size bytes a weight and frame_bytes a payload. A page of the tables through
 * which kernels find weights has 2^shift of them; -1: as many as are best for each chunk. */
typedef struct tk_cut {
    int64_t rows_per_chunk, most_bytes, frame_bytes;
    int32_t weight_size, shift;
    int32_t threads;
    int64_t cancel_mark;
} tk_cut;
TK_API int tk_chunks_new(const tusk_group *group, const tk_cut *cut, tk_chunks **out);
TK_API void tk_chunks_free(tk_chunks *chunks);

/* Mapping, until n_ids is -1: tk_chunks_ids takes up to `limit` chunks, and copied to ids, shape
 * (n_ids,), are the distinct ids of each; the caller finds their keys and slots; copied to keys,
 * shape (n_keys,), are the distinct keys of each chunk, ascending; the caller finds their widths,
 * the weights in each payload; tk_chunks_place overwrites the ids in the rows. Where it does not
 * return TK_OK the rows are of no more use. */
TK_API int tk_chunks_ids(tk_chunks *chunks, int64_t limit, int64_t *n_ids);
TK_API void tk_chunks_copy_ids(const tk_chunks *chunks, int64_t *ids);
TK_API int tk_chunks_keys(tk_chunks *chunks, const int64_t *keys, const int32_t *slots,
                          int64_t *n_keys);
TK_API void tk_chunks_copy_keys(const tk_chunks *chunks, int64_t *keys);
TK_API int tk_chunks_place(tk_chunks *chunks, const int64_t *widths);

/* Halves a mapped chunk, for a store that has no room for it; the numbers behind it go up by
 * one. TK_CHUNK_TOO_LARGE: it has but one row. */
TK_API int tk_chunks_split(tk_chunks *chunks, int64_t number);

typedef struct tk_chunk {
    int64_t row, rows, entries; /* its first row's number in the group */
    const uint64_t *keys;       /* (n_keys,) distinct, ascending */
    const uint32_t *widths;
    int64_t n_keys, weights, features; /* weights: sum of the widths; features: distinct ones */
    int32_t shift;
} tk_chunk;
TK_API int64_t tk_chunks_count(const tk_chunks *chunks);
TK_API void tk_chunks_at(const tk_chunks *chunks, int64_t number, tk_chunk *out);

/* One training. A stored number u stands for the weight w = scale u, so that l2 costs nothing a
 * weight; l1 is applied to the payloads of a chunk when it is acquired. `time`, the sum of all
 * steps so far, tells both, with the payload's stamp: see stored_clock.hpp. */
typedef struct tk_stored {
    const tk_pass *pass; /* groups: the one cut into chunks */
    const tk_chunks *chunks;
    const tusk_frame_access *access;
    const int64_t *which; /* (n_which,) numbers of the chunks to visit; NULL: all */
    int64_t n_which;
    int32_t batch_size, power; /* as in tk_epoch, and so are epochs_done to shuffle */
    double epochs_done;
    double l1, l2, step;
    uint64_t seed;
    int32_t shuffle;
    int32_t fold; /* tk_stored_settle: leave weights with scale 1 and stamp 0 */
    /* in and out */
    double intercept;
    double time; /* 0 at first */
    /* out */
    double scale; /* of payloads whose stamp is of now */
    double loss;  /* sum over rows; of an epoch: before each row's own update */
    double sum_squares, sum_absolute; /* of weights: tk_stored_settle */
    int64_t rows, n_keys, nonzeros;   /* rows read, keys acquired, weights that are not 0 */
    int64_t acquire_ns, train_ns, release_ns; /* summed over the workers */
    int64_t failed_chunk;                     /* -1: none */
    char error[TUSK_STORE_ERROR];
} tk_stored;

/* One epoch of SGD by pass->threads workers without locks, in place on the shared payloads. */
TK_API int tk_stored_epoch(tk_stored *job);
/* Losses at the weights as they are. */
TK_API int tk_stored_loss(tk_stored *job);
/* Brings the payloads of n ascending keys up to date, at most most_bytes at once in each worker,
 * and sums up their weights. With fold, time becomes 0; where that fails, some payloads have been
 * folded and others not. */
TK_API int tk_stored_settle(tk_stored *job, const uint64_t *keys, const uint32_t *widths,
                            int64_t n, int64_t most_bytes);

/* Payloads of n ascending keys in plain memory, zeros at first: for trials of steps, and for
 * tests. */
typedef struct tk_scratch tk_scratch;
TK_API int tk_scratch_new(const uint64_t *keys, const uint32_t *widths, int64_t n,
                          int32_t weight_size, tk_scratch **out);
TK_API void tk_scratch_free(tk_scratch *scratch);
TK_API void tk_scratch_reset(tk_scratch *scratch);
/* Good as long as the scratch is. */
TK_API const tusk_frame_access *tk_scratch_access(tk_scratch *scratch);
/* Frame of the i-th key. */
TK_API tusk_frame *tk_scratch_frame(tk_scratch *scratch, int64_t i);

/* --- matrix factorization --- */
/* Passes here are of one group of dense rows with two features, [user, item]; their labels are
 * ratings, kept as float. The objective stands in factorization.hpp. Users and items are ids from
 * 0 on; a vector has `width` numbers, its bias first if there are any, then its factors. */
typedef struct tk_ids {
    int64_t n_users, n_items; /* 1 + the largest id */
    int64_t bad_row; /* 1-based first row with an id that is negative, no whole number, at least
                        2^31, or as float 2^24, beyond which they are rounded; 0: none */
    int32_t bad_position; /* 1: user, 2: item */
    double bad;
} tk_ids;
TK_API int tk_rating_ids(const tk_pass *pass, tk_ids *out);

typedef struct tk_factor_spec {
    int64_t n_users, n_items; /* at least those of tk_rating_ids */
    int32_t rank, biases;
    double l2;
    uint64_t seed; /* of the factors' start and of all orders */
    /* Vectors are in a store, those of a block of ratings have about so many bytes; 0: they are in
     * memory. */
    int64_t block_bytes;
} tk_factor_spec;
typedef struct tk_factorization tk_factorization;
/* Copies the ratings into blocks, in an order that depends on them and the seed alone, and draws
 * the factors' start. */
TK_API int tk_factorization_new(const tk_pass *pass, tusk_memory *memory,
                                const tk_factor_spec *spec, tk_factorization **out);
TK_API void tk_factorization_free(tk_factorization *f);
/* The vectors as they were at first. */
TK_API void tk_factorization_start(tk_factorization *f);
/* A copy of the vectors to come back to. */
TK_API int tk_factorization_keep(tk_factorization *f);
TK_API void tk_factorization_restore(tk_factorization *f);
/* One epoch at a step size; loss: sum of losses, each before its own update; penalty: sum of the
 * ratings' penalties behind the epoch. Blocks that share
 * neither users nor items run side by side, and those that do always in the same order, so that
 * threads change no bit; `lock_free`: as threads come to them, without waiting (HOGWILD!). */
TK_API int tk_factorization_epoch(tk_factorization *f, int64_t epoch, double step, int threads,
                                  int lock_free, int64_t cancel_mark, double *loss,
                                  double *penalty);
/* The sum of losses of all training ratings and that of their penalties. */
TK_API int tk_factorization_objective(const tk_factorization *f, int threads, int64_t cancel_mark,
                                      double *loss, double *penalty);
/* The sum of losses of other rows, whose ids are below n_users and n_items. */
TK_API int tk_factorization_loss(const tk_factorization *f, const tk_pass *pass, double *loss);
/* mean: mu; coef: (n_users + n_items, width), users first, zeros for ids without ratings. */
TK_API void tk_factorization_write(const tk_factorization *f, double *mean, double *coef);
/* mu, of the training ratings. */
TK_API double tk_factorization_mean(const tk_factorization *f);
/* Their standard deviation. */
TK_API double tk_factorization_deviation(const tk_factorization *f);

/* --- matrix factorization, its vectors in a store --- */
/* Vectors lie there as kernels use them: floats in units of the ratings' deviation
 * (factorization.hpp), `stride` of them, width up to whole multiples of 16, behind each other.
 * Vector r, of users and behind them, from a multiple of per_key on, of items, is in key
 * r / per_key; or, a key a weight, in keys r * stride to r * stride + width - 1. */
enum tk_factors_code {
    TK_FACTORS_STORE_FAILED = 16,  /* a sentence is in error */
    TK_FACTORS_STORE_CORRUPT = 17, /* the same */
    TK_FACTORS_TOO_LARGE = 18      /* not even two keys fit into a worker's share of memory */
};
/* How many keys all blocks together would ask for with per_key[i] vectors a key, i < n. */
TK_API int tk_factor_count(const tk_factorization *f, const int32_t *per_key, int32_t n,
                           int threads, int64_t cancel_mark, int64_t *keys);
/* Which keys which ratings need. per_key: vectors, 0: a key a weight; key_bytes: of a key in
 * memory; most_bytes: of all that a worker holds at a time. f must outlive it. */
typedef struct tk_factor_keys tk_factor_keys;
TK_API int tk_factor_keys_new(const tk_factorization *f, int32_t per_key, int64_t key_bytes,
                              int64_t most_bytes, int threads, int64_t cancel_mark,
                              tk_factor_keys **out);
TK_API void tk_factor_keys_free(tk_factor_keys *keys);
/* The next epoch finds an empty store, and draws the factors' start. */
TK_API void tk_factor_keys_start(tk_factor_keys *keys);
/* The next epoch finds the vectors that all epochs before left. */
TK_API void tk_factor_keys_resume(tk_factor_keys *keys);
/* The row of item 0. */
TK_API int64_t tk_factor_keys_first_item(const tk_factor_keys *keys);
typedef struct tk_stored_factors {
    const tk_factorization *factorization; /* made with block_bytes */
    tk_factor_keys *keys;                  /* of it */
    const tusk_frame_access *access;       /* of floats */
    int32_t threads;                       /* workers 0 to threads - 1 */
    int64_t cancel_mark;
    int64_t epoch;
    double step;
    double mean, deviation; /* of the ratings that the model was trained on: a loss */
    /* out: sums over ratings, an epoch's losses before each one's own update, penalties behind
     * the epoch; over workers */
    double loss, penalty;
    int64_t n_vectors; /* that blocks, as large as fit, named */
    int64_t n_keys;    /* acquired */
    int64_t acquire_ns, train_ns, release_ns;
    char error[TUSK_STORE_ERROR];
} tk_stored_factors;
/* One epoch, in place; threads change no bit. */
TK_API int tk_stored_factors_epoch(tk_stored_factors *job);
/* Losses of the factorization's ratings, which may be others than were trained on. */
TK_API int tk_stored_factors_loss(tk_stored_factors *job);

#ifdef __cplusplus
}
#endif
#endif
