/* Matrix factorization with vectors in memory or in a store. */
#ifndef TUSK_FACTORIZATION_API_H
#define TUSK_FACTORIZATION_API_H

#include "../../../kvstore/native/frames.h"
#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pass here has one group of dense rows with two features, [user, item]. The labels are the
 * ratings, stored as float. Weights of rows are scaled to the mean 1, for vectors in memory only.
 * factorization.hpp defines the objective. Ids of users and items start at 0. A vector has `width`
 * numbers: the bias, if the model has biases, and then the factors. */
typedef struct tk_ids {
    int64_t n_users, n_items; /* 1 + the largest id */
    int64_t bad_row; /* number, from 1, of the first row with a bad id; 0: none. An id is bad if
                        it is negative, not a whole number or too large: at least 2^31, or 2^24
                        in rows of floats, which round larger numbers */
    int32_t bad_position; /* 1: user, 2: item */
    double bad;
} tk_ids;
TK_API int tk_rating_ids(const tk_pass *pass, tk_ids *out);

typedef struct tk_factor_spec {
    int64_t n_users, n_items; /* at least the counts from tk_rating_ids */
    int32_t rank, biases;
    double l2, l2_factors; /* of biases, and of factors */
    uint64_t seed;         /* for the initial factors and all orders */
    /* 0: vectors are in memory. Else they are in a store, and the vectors of a block of ratings
     * take about block_bytes bytes. */
    int64_t block_bytes;
    double alpha; /* for implicit feedback: increase of the confidence per unit */
} tk_factor_spec;
typedef struct tk_factorization tk_factorization;
/* Copies the ratings into blocks and draws the initial factors. The order of the ratings depends
 * only on their values and the seed. */
TK_API int tk_factorization_new(const tk_pass *pass, tusk_memory *memory,
                                const tk_factor_spec *spec, tk_factorization **out);
TK_API void tk_factorization_free(tk_factorization *f);
/* Resets the vectors to their initial values. */
TK_API void tk_factorization_start(tk_factorization *f);
/* Saves a copy of the vectors, which tk_factorization_restore brings back. */
TK_API int tk_factorization_keep(tk_factorization *f);
TK_API void tk_factorization_restore(tk_factorization *f);
/* In the functions below `sums` (2,), if not NULL, receives the sum of the losses and the sum
 * of the ratings' penalties. */
/* One epoch at a step size. Each loss is taken before the rating's own update, the penalties after
 * the epoch. Blocks that share no users or items run in parallel. Blocks that share some run in a
 * fixed order, so the result is the same for any number of threads. `lock_free`: threads do not
 * wait for each other (HOGWILD!). */
TK_API int tk_factorization_epoch(tk_factorization *f, int64_t epoch, double step, int threads,
                                  int lock_free, int64_t cancel_mark, double *sums);
/* One pass of alternating least squares: minimises the objective over the users' vectors with the
 * items' fixed, then over the items' with the users' fixed. sums: at the new vectors. The result
 * is the same for any number of threads. relax: over-relaxation, the factor by which each change
 * is multiplied, below 2. Each thread takes 8 bytes from the account per rating of the largest
 * range. */
TK_API int tk_factorization_solve(tk_factorization *f, double relax, int threads,
                                  int64_t cancel_mark, double *sums);
/* The objective's sums over all training ratings. */
TK_API int tk_factorization_objective(const tk_factorization *f, int threads, int64_t cancel_mark,
                                      double *sums);
/* The weighted sum of losses over other rows. Their ids must be below n_users and n_items. */
TK_API int tk_factorization_loss(const tk_factorization *f, const tk_pass *pass, double *loss);
/* Writes the model. mean: mu; coef: (n_users + n_items, width), users first, zeros for ids without
 * ratings. */
TK_API void tk_factorization_write(const tk_factorization *f, double *mean, double *coef);
/* mu, the mean of the training ratings. */
TK_API double tk_factorization_mean(const tk_factorization *f);
/* The standard deviation of the training ratings. */
TK_API double tk_factorization_deviation(const tk_factorization *f);

/* --- one part of a group's users, whose items' vectors come in blocks --- */
/* The ratings of some users: ids of users, and of each item its block and its place there. */
typedef struct tk_part_ratings {
    int64_t n;
    const int32_t *user, *block, *place;
    const double *value, *weight; /* (n,); weight with the mean 1 in all parts, or NULL */
    int32_t blocks;
    double mean, deviation; /* of the ratings of all parts */
} tk_part_ratings;
typedef struct tk_factor_part tk_factor_part;
/* Copies the ratings, and draws the users' initial factors. */
TK_API int tk_factor_part_new(const tk_factor_spec *spec, const tk_part_ratings *ratings,
                              tusk_memory *memory, tk_factor_part **out);
TK_API void tk_factor_part_free(tk_factor_part *part);
/* A step for each rating of a block of n items. vectors: (n, stride), in units of the deviation.
 * squares: the sum of squared errors before each step, in these units. */
TK_API int tk_factor_part_visit(tk_factor_part *part, int32_t block, int64_t epoch, double step,
                                int64_t cancel_mark, float *vectors, int64_t n, double *squares);
/* The number of users. */
TK_API int64_t tk_factor_part_users(const tk_factor_part *part);
/* Copies the users' vectors (users, stride), or sets them. */
TK_API void tk_factor_part_state(tk_factor_part *part, int32_t set, float *vectors);
/* Ids of the users, (users,), and their vectors in the caller's units, (users, width). */
TK_API void tk_factor_part_write(const tk_factor_part *part, int32_t *id, double *coef);
/* The sum of the ratings' penalties for users. */
TK_API double tk_factor_part_penalty(const tk_factor_part *part);
/* The initial vectors of items, (n, stride). */
TK_API void tk_factor_start(const tk_factor_spec *spec, const int32_t *id, int64_t n,
                            float *vectors);

/* --- matrix factorization with vectors in a store --- */
/* The store has vectors in the layout of the kernels: floats in units of the ratings' standard
 * deviation (factorization.hpp), `stride` floats per vector, which is width rounded up to a
 * multiple of 16. Rows of users come first; rows of items start at the next multiple of per_key.
 * Row r is in key r / per_key or, with one key per weight, in keys r * stride to
 * r * stride + width - 1. */
enum tk_factors_code {
    TK_FACTORS_STORE_FAILED = 16,  /* `error` has a message */
    TK_FACTORS_STORE_CORRUPT = 17, /* `error` has a message */
    TK_FACTORS_TOO_LARGE = 18      /* two keys do not fit into a worker's share of memory */
};
/* For each i < n: how many keys all blocks together request with per_key[i] vectors per key. */
TK_API int tk_factor_count(const tk_factorization *f, const int32_t *per_key, int32_t n,
                           int threads, int64_t cancel_mark, int64_t *keys);
/* The keys that each block of ratings needs. per_key: vectors per key; 0: one key per weight.
 * key_bytes: size of a key in memory. most_bytes: limit for the keys that a worker holds at a
 * time. f must outlive this object. */
typedef struct tk_factor_keys tk_factor_keys;
TK_API int tk_factor_keys_new(const tk_factorization *f, int32_t per_key, int64_t key_bytes,
                              int64_t most_bytes, int threads, int64_t cancel_mark,
                              tk_factor_keys **out);
TK_API void tk_factor_keys_free(tk_factor_keys *keys);
/* The next epoch starts with an empty store and draws the initial factors. */
TK_API void tk_factor_keys_start(tk_factor_keys *keys);
/* The next epoch continues from the vectors in the store. */
TK_API void tk_factor_keys_resume(tk_factor_keys *keys);
/* The row of item 0 in the store. */
TK_API int64_t tk_factor_keys_first_item(const tk_factor_keys *keys);
typedef struct tk_stored_factors {
    const tk_factorization *factorization; /* created with block_bytes */
    tk_factor_keys *keys;                  /* created for this factorization */
    const tusk_frame_access *access;       /* frames of floats */
    int32_t threads;                       /* workers 0 to threads - 1 */
    int64_t cancel_mark;
    int64_t epoch;
    double step;
    double mean, deviation; /* of the training ratings; only a loss reads them */
    /* out: sums over ratings and workers. An epoch takes each loss before the rating's own update
     * and the penalties after the epoch. */
    double loss, penalty;
    int64_t n_vectors; /* distinct vectors of each piece, summed over pieces */
    int64_t n_keys;    /* keys acquired */
    int64_t acquire_ns, train_ns, release_ns;
    char error[TUSK_STORE_ERROR];
} tk_stored_factors;
/* One epoch, in place. The result is the same for any number of threads. */
TK_API int tk_stored_factors_epoch(tk_stored_factors *job);
/* Losses over the factorization's ratings. The model may be trained on other ratings. */
TK_API int tk_stored_factors_loss(tk_stored_factors *job);

/* --- matrix factorization of implicit feedback, with vectors in memory --- */
/* A pass here has one group of dense rows [user, item], as for tk_factorization. A label is the
 * amount of feedback, 0 or more, and a row of weight 2 counts as two. The rows of one pair add
 * up. interactions.hpp defines the objectives. */
typedef struct tk_interactions tk_interactions;

/* The number, from 1, of the first row whose label is not in [0, most], and that label; 0:
 * none. */
TK_API int tk_feedback_outside(const tk_pass *pass, double most, int64_t *row, double *label);

/* Copies the rows and draws the initial factors. The result depends only on the rows' values and
 * the seed, not on their order. */
TK_API int tk_interactions_new(const tk_pass *pass, tusk_memory *memory,
                               const tk_factor_spec *spec, tk_interactions **out);
/* The pairs with feedback above 0, and the sum of the confidences of all pairs of users and items
 * with rows. */
TK_API int64_t tk_interactions_pairs(const tk_interactions *f);
TK_API double tk_interactions_confidence(const tk_interactions *f);
TK_API void tk_interactions_free(tk_interactions *f);
/* Resets the vectors to their initial values. */
TK_API void tk_interactions_start(tk_interactions *f);
/* Solves for the users' vectors with the items' fixed, and then for the items'. cg_steps: steps of
 * conjugate gradient for each vector; 0: Cholesky's factorization. objective: the sum after it.
 * The result is the same for any number of threads. */
TK_API int tk_interactions_solve(tk_interactions *f, int cg_steps, int threads,
                                 int64_t cancel_mark, double *objective);
/* The objective's sum at the current vectors. */
TK_API int tk_interactions_objective(tk_interactions *f, int threads, int64_t cancel_mark,
                                     double *objective);
/* One epoch of Bayesian personalised ranking (ranking.cpp), of vectors with biases. loss: the
 * mean of the triples before their steps; 0 if each user has all items. The result is the same
 * for any number of threads. */
TK_API int tk_interactions_rank(tk_interactions *f, int64_t epoch, double step, int threads,
                                int64_t cancel_mark, double *loss);
/* Writes the vectors: coef (n_users + n_items, width), users first, zeros for ids without rows. */
TK_API void tk_interactions_write(const tk_interactions *f, double *coef);

#ifdef __cplusplus
}
#endif
#endif
