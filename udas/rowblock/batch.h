/* The contract between a database and the trainer: a batch of groups in, a batch of models out.
 * The database calls the trainer with a tusk_batch. During the call the trainer calls a
 * tusk_emit_ function, as often as it likes, and sets answered; or it writes one sentence into
 * error. Its return value is meaningless: if a callback is interrupted, it is whatever was in a
 * register. Pointers in a batch are valid during the call only. */
#ifndef TUSK_BATCH_H
#define TUSK_BATCH_H

#include "model_fields.h"
#include "remarks.h"
#include "rowblock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* SEND_ROWS and TAKE_MODEL are internal to the package: in place of a task they have the handle
 * of an object in Python that gets the rows, or has the models. READ_MODEL and WRITE_SQL have no
 * rows: each spec's options are a text of another package, whose model is the result, or a call of
 * model_to_sql as JSON, whose expression is the result. POOL trains models of groups that learn
 * from each other, for TAKE_MODEL: a row's offset is the number of its group. */
enum tusk_request {
    TUSK_TRAIN = 0,
    TUSK_EXPLAIN = 1,
    TUSK_FREQUENCIES = 2,
    TUSK_PARTITION = 3,
    TUSK_SEND_ROWS = 4,
    TUSK_TAKE_MODEL = 5,
    TUSK_READ_MODEL = 6,
    TUSK_WRITE_SQL = 7,
    TUSK_POOL = 8
};

/* Whether the request returns a text for each group. */
static inline int tusk_answers_text(int request) {
    return request == TUSK_EXPLAIN || request == TUSK_SEND_ROWS || request == TUSK_WRITE_SQL ||
           request == TUSK_POOL;
}

/* The error sentence for a cancelled request. */
static inline const char *tusk_interrupted(int request) {
    return request == TUSK_TRAIN || request == TUSK_EXPLAIN || request == TUSK_SEND_ROWS ||
                   request == TUSK_TAKE_MODEL || request == TUSK_POOL
               ? "the training was interrupted"
               : "the statement was interrupted";
}

/* The name of a request in SQL; for internal ones, the function that their errors name. */
static inline const char *tusk_request_name(int request) {
    static const char *const names[] = {
        "train_model", "explain_training", "feature_frequencies", "partition_model", "train_model",
        "train_model", "model_from",       "model_to_sql",        "train_model"};
    return names[request];
}

typedef struct tusk_spec {
    const char *task;
    const char *options; /* JSON text, "" if none was given */
} tusk_spec;

typedef struct tusk_batch {
    int64_t n_groups;
    const tusk_group *groups; /* [n_groups] */
    const int32_t *spec;      /* [n_groups], index into specs */
    const tusk_spec *specs;
    int32_t n_specs;
    int32_t request; /* enum tusk_request */
    int32_t threads; /* for trainings without the option; 0: the budget decides */
    tusk_memory *memory;
    void *context; /* for the database's tusk_emit_ functions */
    char error[1024];
    char sqlstate[8];       /* of the error, five characters */
    const char *store_root; /* directory of the stores, an absolute path; NULL: the default */
    int64_t statement;      /* the same in all batches of a statement; 0: unknown */
    int32_t answered;       /* 1: all results have been emitted */
    double began;         /* time of its first rows, seconds of the monotonic clock; 0: unknown */
    int32_t most_threads; /* the database's limit if no number is given; 0: no limit */
    int32_t unshared;     /* 1: its trainings take no part in the shares of the host's cores */
    double weight;        /* of its trainings among these; 0: as the environment says */
    const char *program;  /* the database's name in a list of trainings */
    /* [n_groups], why no model can be trained on a group; NULL: it is valid. The trainer
     * handles such a group without reading its rows. */
    const char *const *flaws;
    int32_t labels;             /* enum tusk_labels (named.h), of all groups */
    const tusk_remark *remarks; /* [n_remarks], in the order of the groups */
    int64_t n_remarks;
} tusk_batch;

typedef int (*tusk_trainer)(tusk_batch *batch);

/* Ragged lists: item i is values[offsets[i] .. offsets[i + 1]]. An empty list is SQL NULL, a
 * NaN is a NULL element. */
typedef struct tusk_lists {
    const double *values;
    const int64_t *offsets;
} tusk_lists;

/* Strings by dictionary: item i is pool[code[i]], or NULL if code[i] < 0. */
typedef struct tusk_strings {
    const char *const *pool;
    const int32_t *code;
} tusk_strings;

/* Lists of strings by dictionary: item i is pool[begin[code[i]] .. begin[code[i] + 1]], or NULL
 * if code[i] < 0. */
typedef struct tusk_names {
    const char *const *pool;
    const int64_t *begin;
    const int32_t *code;
} tusk_names;

#define TUSK_COLUMN_TEXT(name) tusk_strings name;
#define TUSK_COLUMN_TEXTS(name) tusk_names name;
#define TUSK_COLUMN_NUMBER(name) const double *name;
#define TUSK_COLUMN_NUMBERS(name) tusk_lists name;
#define TUSK_COLUMN_COUNT(name) const int64_t *name;
#define TUSK_COLUMN_TRUTH(name) const uint8_t *name;
#define TUSK_COLUMN_PAYLOAD(name)
#define TUSK_COLUMN(NAME, name, KIND, meaning) TUSK_COLUMN_##KIND(name)

/* Models by column; every array has n items. */
typedef struct tusk_models {
    int64_t n;
    const int64_t *group; /* group of the batch of each model */
    TUSK_MODEL_FIELDS(TUSK_COLUMN)
} tusk_models;

/* Result of TUSK_FREQUENCIES: the features of one group, most frequent first, n items each. */
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

/* Result of TUSK_PARTITION, for one group. */
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
