/* The result types of feature_frequencies and partition_model, and conversion of the trainer's
 * results to them. */
#include <string.h>

#include "../catching.h"
#include "../emit.h"
#include "../hosting/helper/answers.h"

typedef struct field {
    const char *name;
    duckdb_type type;
    bool list;
} field;

static const field FREQUENCY[TUSK_FREQUENCY_FIELDS] = {
    {"feature", DUCKDB_TYPE_BIGINT, false},
    {"estimate", DUCKDB_TYPE_BIGINT, false},
    {"lower", DUCKDB_TYPE_BIGINT, false},
    {"upper", DUCKDB_TYPE_BIGINT, false},
};

static const field PARTITIONING[PARTITIONING_FIELDS] = {
    [P_FEATURES] = {"features", DUCKDB_TYPE_BIGINT, false},
    [P_PARTITIONS] = {"partitions", DUCKDB_TYPE_BIGINT, false},
    [P_BLOCK_SIZES] = {"block_sizes", DUCKDB_TYPE_BIGINT, true},
    [P_REQUESTS_BEFORE] = {"requests_before", DUCKDB_TYPE_DOUBLE, false},
    [P_REQUESTS_AFTER] = {"requests_after", DUCKDB_TYPE_DOUBLE, false},
    [P_SAVED] = {"saved", DUCKDB_TYPE_DOUBLE, false},
    [P_ROWS_SEEN] = {"rows_seen", DUCKDB_TYPE_BIGINT, false},
    [P_ROWS_SKIPPED] = {"rows_skipped", DUCKDB_TYPE_BIGINT, false},
    [P_ROWS_SAMPLED] = {"rows_sampled", DUCKDB_TYPE_BIGINT, false},
    [P_EXPLANATION] = {"explanation", DUCKDB_TYPE_VARCHAR, false},
    [P_INDEX_MAP] = {"index_map", DUCKDB_TYPE_VARCHAR, false},
};

static duckdb_logical_type make_struct_type(const field *fields, idx_t n) {
    duckdb_logical_type types[PARTITIONING_FIELDS];
    const char *names[PARTITIONING_FIELDS];
    for (idx_t i = 0; i < n; i++) {
        names[i] = fields[i].name;
        types[i] = fields[i].list ? make_list_type(fields[i].type)
                                  : duckdb_create_logical_type(fields[i].type);
    }
    duckdb_logical_type made = duckdb_create_struct_type(types, names, n);
    for (idx_t i = 0; i < n; i++)
        duckdb_destroy_logical_type(&types[i]);
    return made;
}

duckdb_logical_type make_frequencies_type(void) {
    duckdb_logical_type item = make_struct_type(FREQUENCY, TUSK_FREQUENCY_FIELDS);
    duckdb_logical_type list = duckdb_create_list_type(item);
    duckdb_destroy_logical_type(&item);
    return list;
}

duckdb_logical_type make_partitioning_type(void) {
    return make_struct_type(PARTITIONING, PARTITIONING_FIELDS);
}

/* Appends space for n more items to the list column and makes them the row's list; returns
 * their offset. */
static idx_t extend_list(duckdb_vector v, idx_t row, idx_t n) {
    idx_t at = duckdb_list_vector_get_size(v);
    duckdb_list_vector_reserve(v, at + n);
    duckdb_list_vector_set_size(v, at + n);
    ((duckdb_list_entry *)duckdb_vector_get_data(v))[row] = (duckdb_list_entry){at, n};
    return at;
}

static void copy_int64(duckdb_vector v, idx_t at, const int64_t *items, idx_t n) {
    if (n)
        memcpy((int64_t *)duckdb_vector_get_data(v) + at, items, n * sizeof *items);
}

typedef struct emission {
    const answer *answer;
    int64_t group;
    const void *found;
} emission;

static void emit(tusk_batch *batch, int64_t group, const void *found, void (*put)(void *)) {
    answer *a = batch->context;
    emission e = {a, group, found};
    if (!catching(put, &e))
        a->failed = true;
}

static void put_frequencies(void *argument) {
    const emission *e = argument;
    const answer *a = e->answer;
    const tusk_frequencies *found = e->found;
    int64_t group = e->group;
    idx_t n = (idx_t)found->n, at = extend_list(a->result, answer_row(a, group), n);
    const int64_t *columns[] = {found->feature, found->estimate, found->lower, found->upper};
    duckdb_vector item = duckdb_list_vector_get_child(a->result);
    for (idx_t f = 0; f < TUSK_FREQUENCY_FIELDS; f++)
        copy_int64(duckdb_struct_vector_get_child(item, f), at, columns[f], n);
}

static void put_int64(duckdb_vector v, idx_t row, int64_t x) {
    ((int64_t *)duckdb_vector_get_data(v))[row] = x;
}

static void put_double(duckdb_vector v, idx_t row, double x) {
    ((double *)duckdb_vector_get_data(v))[row] = x;
}

static void put_partitioning(void *argument) {
    const emission *e = argument;
    const answer *a = e->answer;
    const tusk_partitioning *made = e->found;
    int64_t group = e->group;
    idx_t row = answer_row(a, group), n = (idx_t)made->n_block_sizes;
    duckdb_vector f[PARTITIONING_FIELDS];
    for (idx_t i = 0; i < PARTITIONING_FIELDS; i++)
        f[i] = duckdb_struct_vector_get_child(a->result, i);
    put_int64(f[P_FEATURES], row, made->features);
    put_int64(f[P_PARTITIONS], row, made->partitions);
    idx_t at = extend_list(f[P_BLOCK_SIZES], row, n);
    copy_int64(duckdb_list_vector_get_child(f[P_BLOCK_SIZES]), at, made->block_sizes, n);
    put_double(f[P_REQUESTS_BEFORE], row, made->requests_before);
    put_double(f[P_REQUESTS_AFTER], row, made->requests_after);
    put_double(f[P_SAVED], row, made->saved);
    put_int64(f[P_ROWS_SEEN], row, made->rows_seen);
    put_int64(f[P_ROWS_SKIPPED], row, made->rows_skipped);
    put_int64(f[P_ROWS_SAMPLED], row, made->rows_sampled);
    duckdb_vector_assign_string_element(f[P_EXPLANATION], row, made->explanation);
    duckdb_vector_assign_string_element(f[P_INDEX_MAP], row, made->index_map);
}

/* Result of TUSK_FREQUENCIES, one group at a time. */
TUSK_EXPORT void tusk_emit_frequencies(tusk_batch *batch, int64_t group,
                                       const tusk_frequencies *found) {
    const answer *a = batch->context;
    if (a->reply)
        reply_frequencies(a->reply, group, found);
    else
        emit(batch, group, found, put_frequencies);
}

/* Result of TUSK_PARTITION, one group at a time. */
TUSK_EXPORT void tusk_emit_partitioning(tusk_batch *batch, int64_t group,
                                        const tusk_partitioning *made) {
    const answer *a = batch->context;
    if (a->reply)
        reply_partitioning(a->reply, group, made);
    else
        emit(batch, group, made, put_partitioning);
}
