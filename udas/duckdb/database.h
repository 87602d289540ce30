/* Declarations shared by the files of DuckDB's extension. */
#ifndef TUSK_DATABASE_H
#define TUSK_DATABASE_H

#define DUCKDB_EXTENSION_NAME tuskml
#include "duckdb_extension.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../rowblock/batch.h"
#include "v1/v1.h"

DUCKDB_EXTENSION_EXTERN

#define TUSK_EXPORT __attribute__((visibility("default")))

typedef struct store_path store_path;

/* One database that has loaded the extension: its memory account, and the path of its stores.
 * It lives as long as the functions registered with it. */
typedef struct database {
    tusk_memory *memory;
    struct spec_table *specs;
    const store_path *store_path; /* the newest path; NULL: unknown */
    struct sealed_cache *models;  /* plans of models for rows by name, kept between predictions */
    struct plan_pool *plans;      /* of the texts of rows by name */
    struct eras *eras;
    struct numberings *numberings; /* of the texts that rows by name bring */
    int32_t loaded_threads;        /* the setting `threads` when the extension was loaded */
    const v1 *v1;                  /* NULL with DuckDB 2.0 or later */
    _Atomic int64_t looked_at;     /* when the settings were last read: ms */
    _Atomic int64_t readable_at;   /* when the current root was last found readable: ms */
    _Atomic int32_t unshared;      /* 1: its trainings take no part in the shares of cores */
    _Atomic double weight;         /* of its trainings among these; 0: as the environment says */
    int references;
    int process; /* forks_so_far() when the database was loaded */
} database;

/* The number of forks between the first process and this one. A forked process has copies of
 * its parent's databases, but not their threads, so a lock in such a copy may never be
 * released. */
int forks_so_far(void);
#define FORKED                                                                                \
    "this process was forked from the one that opened the database: connect in it again, or " \
    "start it by 'spawn'"

void database_release(void *d);
database *database_retain(database *d);

/* When a statement packs many rows, asks the Python package to update the account with DuckDB's
 * current memory_limit and temp_directory: once when the statement first does so, then at most
 * every 0.1 s. */
void look_at_limits(database *d);
void look_again(database *d);
/* The `threads` of the database if only the extension knows it; 0: the package reads the
   setting. */
int32_t threads_of_host(const database *d);

/* The documented name of a function; if own is set, a name that no other function has. */
#define SPELLED 64
const char *spelled(const char *name, bool own, char room[SPELLED]);

/* Each function registers its functions in the database; false if DuckDB refuses. */
bool register_train_model(duckdb_connection connection, database *d);
bool register_read_model(duckdb_connection connection, database *d);
bool register_partition(duckdb_connection connection, database *d);
bool register_rounds(duckdb_connection connection, database *d);
bool register_predict(duckdb_connection connection, database *d);
bool register_marginal_effects(duckdb_connection connection, database *d);
bool register_drift(duckdb_connection connection, database *d);
bool register_metrics(duckdb_connection connection, database *d);
bool register_rolling(duckdb_connection connection, database *d);
bool register_hash_features(duckdb_connection connection);
bool register_sparse_ids(duckdb_connection connection);
bool register_distribution(duckdb_connection connection);
bool register_class_place(duckdb_connection connection);
bool register_summary(duckdb_connection connection);
bool register_sparse(duckdb_connection connection);
bool register_payload(duckdb_connection connection);
bool register_tree_numbers(duckdb_connection connection);
bool register_covariances(duckdb_connection connection);
bool register_recommend(duckdb_connection connection, database *d);
bool register_topics(duckdb_connection connection);
bool register_coherence(duckdb_connection connection);
/* Creates the macros for functions that only SQL can express. Only in a database in memory: any
 * other would store the macro in its file. */
bool create_macros(duckdb_connection connection);
bool register_settings(duckdb_connection connection, database *d);
bool register_activity(duckdb_connection connection, database *d);
bool register_cancel(duckdb_connection connection, database *d);
bool register_store_root(duckdb_connection connection, database *d);

/* The states of n rows, as an array. NULL if DuckDB 1.x leaves open which states they are. */
static inline duckdb_aggregate_state *states_of_rows(const database *d,
                                                     duckdb_aggregate_state *states, idx_t n,
                                                     const void *caller,
                                                     duckdb_aggregate_state same[CHUNK_ROWS]) {
    return d->v1 && n > 1 ? v1_states_of_rows(d->v1, states, n, caller, same) : states;
}

/* --- settings --- */

/* A SQL function that reads or changes the database's settings. It is volatile, because DuckDB
 * would otherwise call it once, when it plans the statement. */
duckdb_scalar_function setting_new(const char *name, database *d, duckdb_scalar_function_t body);
void setting_parameter(duckdb_scalar_function f, duckdb_type type);
bool setting_register(duckdb_connection connection, duckdb_scalar_function f,
                      duckdb_logical_type result);

/* The directory of the stores, an absolute path; NULL if the user has no home directory. The
 * string lives as long as the database. */
const char *store_root(const database *d);
bool store_root_default(database *d);
void store_root_free(database *d);

#define FILES_SENTENCE 512
/* Whether the database's settings let a statement use a directory of stores, or move their root
 * to it; if not, writes why. Asks the Python package, which can read the settings. Without the
 * package the result is true. */
bool files_allowed(const database *d, const char *path, bool move, char *sentence);
/* The same check for reading. A positive result is cached for 0.1 s. */
bool stores_readable(database *d, const char *path, char *sentence);

/* --- types --- */

/* A feature argument: a LIST of T, or STRUCT(indices INTEGER[] or BIGINT[], values LIST of T). */
typedef struct feature_type {
    bool sparse;
    bool f64;
    bool wide; /* BIGINT[] */
} feature_type;

#define N_FEATURE_TYPES 6
extern const feature_type FEATURE_TYPES[N_FEATURE_TYPES];

duckdb_logical_type make_list_type(duckdb_type child);
duckdb_logical_type make_feature_type(feature_type f);
duckdb_logical_type make_model_type(void);
duckdb_logical_type make_frequencies_type(void);
duckdb_logical_type make_partitioning_type(void);

/* --- reading vectors --- */

typedef struct column {
    duckdb_vector vector;
    const void *data;
    uint64_t *validity; /* NULL: all valid */
    uint64_t *rounded;  /* a bit for each number whose double other numbers share; NULL: none */
} column;

static inline column column_of(duckdb_vector v) {
    return (column){v, duckdb_vector_get_data(v), duckdb_vector_get_validity(v), NULL};
}
static inline column chunk_column(duckdb_data_chunk chunk, idx_t i) {
    return column_of(duckdb_data_chunk_get_vector(chunk, i));
}
/* A text with a zero behind it, to be freed; NULL without memory. */
char *copy_text(duckdb_string_t *text);

static inline bool is_valid(const column *c, idx_t row) {
    return !c->validity || (c->validity[row >> 6] >> (row & 63) & 1);
}
static inline bool is_rounded(const column *c, idx_t row) {
    return c->rounded && (c->rounded[row >> 6] >> (row & 63) & 1);
}
static inline bool all_valid(const column *c, idx_t from, idx_t n) {
    if (!c->validity)
        return true;
    for (idx_t i = from; i < from + n; i++)
        if (!is_valid(c, i))
            return false;
    return true;
}

typedef struct list_column {
    column self;
    column child;
    idx_t items; /* of the child vector */
} list_column;

static inline list_column list_column_of(duckdb_vector v) {
    return (list_column){column_of(v), column_of(duckdb_list_vector_get_child(v)),
                         duckdb_list_vector_get_size(v)};
}
static inline duckdb_list_entry list_entry(const list_column *c, idx_t row) {
    return ((const duckdb_list_entry *)c->self.data)[row];
}

/* The features of a chunk of rows. */
typedef struct feature_column {
    feature_type type;
    column self; /* sparse: the struct */
    list_column values;
    list_column indices; /* sparse only */
} feature_column;

feature_column feature_column_of(duckdb_vector v, feature_type type);
/* False if the row's features are NULL or contain a NULL. */
bool features_valid(const feature_column *c, idx_t row);
/* Whether the features are a list that is not NULL, regardless of its elements. */
bool list_given(const feature_column *c, idx_t row);
/* Copies such a list with NaN for each NULL; the caller frees it. NULL if memory is out. */
void *list_with_gaps(const feature_column *c, idx_t row);

/* --- the trainer's results --- */

/* What tusk_batch.context points to for tusk_emit_models and tusk_emit_text. */
typedef struct answer {
    duckdb_vector result;
    idx_t *row;    /* row of each group in the batch */
    bool *emitted; /* whether each group has its result */
    bool failed;   /* DuckDB ran out of memory for a result */
    database *database;
    int64_t born;        /* the cancel count when the packing of these rows began; -1: unknown */
    struct reply *reply; /* in a helper process: destination of the results; otherwise NULL */
} answer;

/* The row for the group's result. */
static inline idx_t answer_row(const answer *a, int64_t group) {
    a->emitted[group] = true;
    return a->row[group];
}

/* --- writing vectors --- */

void set_null(duckdb_vector v, idx_t row);
/* Appends values to the list column and makes them the row's list. */
void put_list(duckdb_vector v, idx_t row, const double *values, idx_t n);

#endif
