/* The contract between a door and the trainer: a batch of groups in, a batch of models out.
 *
 * The door calls the trainer with a tusk_batch. The trainer answers with a tusk_emit_ function, as
 * often as it likes, while the call lasts, and sets answered; or it writes one sentence into
 * error. What it returns says nothing: of a callback that was broken off it is what lay in a
 * register. Pointers in a batch are valid during the call only.
 */
#ifndef TUSK_BATCH_H
#define TUSK_BATCH_H

#include "rowblock.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tusk_request { TUSK_TRAIN = 0, TUSK_EXPLAIN = 1, TUSK_FREQUENCIES = 2, TUSK_PARTITION = 3 };

/* What SQL calls a request. */
static inline const char *tusk_request_name(int request) {
    static const char *const names[] = {"train_model", "explain_training", "feature_frequencies",
                                        "partition_model"};
    return names[request];
}

typedef struct tusk_spec {
    const char *task;
    const char *options; /* JSON text, "" when none was given */
} tusk_spec;

typedef struct tusk_batch {
    int64_t n_groups;
    const tusk_group *groups; /* [n_groups] */
    const int32_t *spec;      /* [n_groups], index into specs */
    const tusk_spec *specs;
    int32_t n_specs;
    int32_t request; /* enum tusk_request */
    int32_t threads; /* of a training whose options do not say; 0: all cores */
    tusk_memory *memory;
    void *door;
    char error[1024];
    char sqlstate[8];       /* of the error, five characters */
    const char *store_root; /* directory of the stores, absolute; NULL: the default */
    int64_t statement;      /* the same in all batches of a statement; 0: unknown */
    int32_t answered;       /* 1: by all that it emitted */
    double began; /* when its rows began to come, seconds of the monotonic clock; 0: unknown */
} tusk_batch;

typedef int (*tusk_trainer)(tusk_batch *batch);

/* Ragged lists: item i is values[offsets[i] .. offsets[i + 1]]; an empty one is SQL NULL, NaN a
 * NULL element. */
typedef struct tusk_lists {
    const double *values;
    const int64_t *offsets;
} tusk_lists;

/* Strings by dictionary: item i is pool[code[i]], NULL when code[i] < 0. */
typedef struct tusk_strings {
    const char *const *pool;
    const int32_t *code;
} tusk_strings;

/* The fields of a model value, in the order of both databases' types. */
enum model_field {
    M_TASK,
    M_COEF,
    M_INTERCEPT,
    M_STD_ERR,
    M_CLASSES,
    M_N_ROWS,
    M_N_SKIPPED,
    M_N_FEATURES,
    M_LOSS,
    M_HISTORY,
    M_ITERATIONS,
    M_CONVERGED,
    M_STATUS,
    M_PLAN,
    M_SECONDS,
    M_OPTIONS,
    M_STORE,
    MODEL_FIELDS
};

/* Models by column, in the order of design.md section 3; every array has n items. */
typedef struct tusk_models {
    int64_t n;
    const int64_t *group; /* which group of the batch each is the model of */
    tusk_strings task;
    tusk_lists coef;
    const double *intercept;
    tusk_lists std_err;
    tusk_lists classes;
    const int64_t *n_rows;
    const int64_t *n_skipped;
    const int64_t *n_features;
    const double *loss;
    tusk_lists history;
    const int64_t *iterations;
    const uint8_t *converged;
    tusk_strings status;
    tusk_strings plan;
    const double *seconds;
    tusk_strings options;
    tusk_strings store;
} tusk_models;

/* The answer to TUSK_FREQUENCIES: the features of one group, most frequent first, n items each. */
typedef struct tusk_frequencies {
    int64_t n;
    const int64_t *feature;
    const int64_t *estimate;
    const int64_t *lower;
    const int64_t *upper;
} tusk_frequencies;

/* The fields of a feature's frequency, all BIGINT. */
#define TUSK_FREQUENCY_FIELDS 4

/* The fields of a partitioning, in the order of both databases' types. */
enum partitioning_field {
    P_FEATURES,
    P_PARTITIONS,
    P_BLOCK_SIZES,
    P_REQUESTS_BEFORE,
    P_REQUESTS_AFTER,
    P_SAVED,
    P_ROWS_SEEN,
    P_ROWS_SKIPPED,
    P_ROWS_SAMPLED,
    P_EXPLANATION,
    P_INDEX_MAP,
    PARTITIONING_FIELDS
};

/* The answer to TUSK_PARTITION: one group's. */
typedef struct tusk_partitioning {
    int64_t features;
    int64_t partitions;
    int64_t n_block_sizes;
    const int64_t *block_sizes;
    double requests_before;
    double requests_after;
    double saved;
    int64_t rows_seen;
    int64_t rows_skipped;
    int64_t rows_sampled;
    const char *explanation;
    const char *index_map;
} tusk_partitioning;

#ifdef __cplusplus
}
#endif
#endif
