/* What the files of the DuckDB door share. */
#ifndef TUSK_DOOR_H
#define TUSK_DOOR_H

#define DUCKDB_EXTENSION_NAME tuskml
#include "duckdb_extension.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../rowblock/batch.h"
#include "states.h"

DUCKDB_EXTENSION_EXTERN

#define TUSK_EXPORT __attribute__((visibility("default")))

typedef struct store_path store_path;

/* One loaded database: its account of memory, where its stores lie. It lives as long as the
 * functions registered with it. */
typedef struct door {
    tusk_memory *memory;
    struct spec_table *specs;
    const store_path *store_path; /* the newest; NULL: unknown */
    struct sealed_cache *models;  /* open files of stores */
    struct eras *eras;
    call_sites sites;            /* of updates in this DuckDB */
    _Atomic int64_t looked_at;   /* the settings: ms */
    _Atomic int64_t readable_at; /* when stores might be read: ms; of the root of then */
    int references;
    int process; /* forks_so_far() when the database was loaded */
} door;

/* Forks on the way from the first process to this one. What a process has of its parent's
 * databases is a copy without their threads, of locks that nobody may ever give back. */
int forks_so_far(void);
#define FORKED                                                                                \
    "this process was forked from the one that opened the database: connect in it again, or " \
    "start it by 'spawn'"

void door_release(void *d);
door *door_retain(door *d);

/* Where a statement packs much, lets the Python package tell the account what DuckDB's
 * memory_limit and temp_directory are now; the first time that a statement does, and every 0.1 s
 * at most. */
void look_at_limits(door *d);
void look_again(door *d);

/* Each registers its functions in the database; false when DuckDB refuses. */
bool register_train_model(duckdb_connection connection, door *d);
bool register_partition(duckdb_connection connection, door *d);
bool register_predict(duckdb_connection connection, door *d);
bool register_metrics(duckdb_connection connection, door *d);
bool register_hash_features(duckdb_connection connection);
bool register_sparse_ids(duckdb_connection connection);
bool register_distribution(duckdb_connection connection);
bool register_summary(duckdb_connection connection);
bool register_sparse(duckdb_connection connection);
bool register_predictor(duckdb_connection connection);
/* What only SQL can say, in a database in memory; elsewhere a macro would be kept in the file. */
bool create_macros(duckdb_connection connection);
bool register_settings(duckdb_connection connection, door *d);
bool register_store_root(duckdb_connection connection, door *d);

/* Learns which callers hand updates an array of states (states.h); false when DuckDB refuses. */
bool learn_call_sites(duckdb_connection connection, door *d);

/* --- settings --- */

/* A function of SQL that reads or changes the door. It is volatile, or DuckDB would call it once
 * when it plans the statement. */
duckdb_scalar_function setting_new(const char *name, door *d, duckdb_scalar_function_t body);
void setting_parameter(duckdb_scalar_function f, duckdb_type type);
bool setting_register(duckdb_connection connection, duckdb_scalar_function f,
                      duckdb_logical_type result);

/* The directory of the stores, an absolute path; NULL where the user has no home. It lives as long
 * as the door. */
const char *store_root(const door *d);
bool store_root_default(door *d);
void store_root_free(door *d);

#define FILES_SENTENCE 512
/* Whether the database's settings let a statement use a directory of stores, or move their root to
 * it; else why not. Asks the Python package, which can read settings; yes without it. */
bool files_allowed(const door *d, const char *path, bool move, char *sentence);
/* The same of reading, looked at every 0.1 s as long as it is allowed. */
bool stores_readable(door *d, const char *path, char *sentence);

/* --- types --- */

/* A feature argument: a LIST of T, or STRUCT(indices INTEGER[], values LIST of T). */
typedef struct feature_type {
    bool sparse;
    bool f64;
} feature_type;

#define N_FEATURE_TYPES 4
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
} column;

static inline column column_of(duckdb_vector v) {
    return (column){v, duckdb_vector_get_data(v), duckdb_vector_get_validity(v)};
}
static inline column chunk_column(duckdb_data_chunk chunk, idx_t i) {
    return column_of(duckdb_data_chunk_get_vector(chunk, i));
}
static inline bool is_valid(const column *c, idx_t row) {
    return !c->validity || (c->validity[row >> 6] >> (row & 63) & 1);
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
    idx_t items; /* of the child */
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
/* False when the row's features are NULL or hold a NULL. */
bool features_valid(const feature_column *c, idx_t row);

/* --- the trainer's answers --- */

/* What tusk_emit_models and tusk_emit_text find in tusk_batch.door. */
typedef struct answer {
    duckdb_vector result;
    idx_t *row;    /* of each group in the batch */
    bool *emitted; /* whether each has its answer */
    bool failed;   /* DuckDB found no memory for one */
    door *door;
    int64_t born; /* cancels when the packing of its rows began; -1: unknown */
} answer;

/* Where the group's answer goes. */
static inline idx_t answer_row(const answer *a, int64_t group) {
    a->emitted[group] = true;
    return a->row[group];
}

/* --- writing vectors --- */

void set_null(duckdb_vector v, idx_t row);
/* Appends values to the list column and makes them the row's item. */
void put_list(duckdb_vector v, idx_t row, const double *values, idx_t n);

#endif
