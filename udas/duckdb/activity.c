/* tuskml_activity(): the trainings that run on the host; tuskml_set_shares(on) and
 * tuskml_set_weight(weight): participation of this database's trainings in the shares of the
 * host's cores. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../scalars/activity/listing.h"
#include "../scalars/activity/table.h"
#include "database.h"

#define LEAST_WEIGHT 0.01
#define MOST_WEIGHT 100.0

typedef struct listing {
    int32_t n, next;
    tusk_running running[TUSK_SLOTS];
} listing;

#define TYPE_WHOLE DUCKDB_TYPE_BIGINT
#define TYPE_TEXT DUCKDB_TYPE_VARCHAR
#define TYPE_NUMBER DUCKDB_TYPE_DOUBLE
#define TYPE_WHEN DUCKDB_TYPE_TIMESTAMP_TZ

static void add_column(duckdb_bind_info info, const char *name, duckdb_type id) {
    duckdb_logical_type type = duckdb_create_logical_type(id);
    duckdb_bind_add_result_column(info, name, type);
    duckdb_destroy_logical_type(&type);
}

static void bind(duckdb_bind_info info) {
#define ADD(name, KIND, value) add_column(info, #name, TYPE_##KIND);
    TUSK_ACTIVITY_COLUMNS(ADD)
}

static void init(duckdb_init_info info) {
    char sentence[32 + TUSK_ACTIVITY_SENTENCE] = "tuskml_activity: ";
    listing *l = malloc(sizeof *l);
    if (!l) {
        duckdb_init_set_error(info, "tuskml_activity: out of memory");
        return;
    }
    l->next = 0;
    l->n = tusk_activity(l->running, sentence + strlen(sentence));
    duckdb_init_set_init_data(info, l, free);
    if (l->n < 0)
        duckdb_init_set_error(info, sentence);
}

static void put_WHOLE(duckdb_vector v, idx_t row, int64_t value) {
    ((int64_t *)duckdb_vector_get_data(v))[row] = value;
}

static void put_TEXT(duckdb_vector v, idx_t row, const char *value) {
    duckdb_vector_assign_string_element(v, row, value);
}

static void put_NUMBER(duckdb_vector v, idx_t row, double value) {
    if (isnan(value))
        set_null(v, row);
    else
        ((double *)duckdb_vector_get_data(v))[row] = value;
}

static void put_WHEN(duckdb_vector v, idx_t row, double seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!(seconds < 1e10))
        set_null(v, row);
    else
        put_WHOLE(v, row,
                  (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + (int64_t)(seconds * 1e6));
}

static void put_running(duckdb_data_chunk chunk, idx_t row, const tusk_running *r) {
    idx_t i = 0;
#define PUT(name, KIND, value) put_##KIND(duckdb_data_chunk_get_vector(chunk, i++), row, value);
    TUSK_ACTIVITY_COLUMNS(PUT)
}

static void list_running(duckdb_function_info info, duckdb_data_chunk chunk) {
    listing *l = duckdb_function_get_init_data(info);
    idx_t rows = 0;
    for (; l->next < l->n && rows < CHUNK_ROWS; l->next++)
        put_running(chunk, rows++, l->running + l->next);
    duckdb_data_chunk_set_size(chunk, rows);
}

static bool register_listing(duckdb_connection connection) {
    duckdb_table_function f = duckdb_create_table_function();
    duckdb_table_function_set_name(f, "tuskml_activity");
    duckdb_table_function_set_bind(f, bind);
    duckdb_table_function_set_init(f, init);
    duckdb_table_function_set_function(f, list_running);
    bool done = duckdb_register_table_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_table_function(&f);
    return done;
}

static bool locked(duckdb_function_info info, const database *d, const char *name) {
    char why[FILES_SENTENCE], sentence[FILES_SENTENCE + 32];
    if (files_allowed(d, "", true, why))
        return false;
    snprintf(sentence, sizeof sentence, "%s: %s", name, why);
    duckdb_scalar_function_set_error(info, sentence);
    return true;
}

static void set_shares(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    database *d = duckdb_scalar_function_get_extra_info(info);
    column on = chunk_column(chunk, 0);
    bool *out = duckdb_vector_get_data(result);
    if (locked(info, d, "tuskml_set_shares"))
        return;
    for (idx_t row = 0; row < duckdb_data_chunk_get_size(chunk); row++) {
        if (!is_valid(&on, row)) {
            set_null(result, row);
            continue;
        }
        out[row] = ((const bool *)on.data)[row];
        d->unshared = !out[row];
    }
}

static void set_weight(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    database *d = duckdb_scalar_function_get_extra_info(info);
    column weight = chunk_column(chunk, 0);
    double *out = duckdb_vector_get_data(result);
    if (locked(info, d, "tuskml_set_weight"))
        return;
    for (idx_t row = 0; row < duckdb_data_chunk_get_size(chunk); row++) {
        if (!is_valid(&weight, row)) {
            set_null(result, row);
            continue;
        }
        out[row] = ((const double *)weight.data)[row];
        if (!(out[row] >= LEAST_WEIGHT && out[row] <= MOST_WEIGHT)) {
            duckdb_scalar_function_set_error(
                info, "tuskml_set_weight: the weight is out of range, expected 0.01 to 100");
            return;
        }
        d->weight = out[row];
    }
}

bool register_activity(duckdb_connection connection, database *d) {
    duckdb_scalar_function shares = setting_new("tuskml_set_shares", d, set_shares);
    setting_parameter(shares, DUCKDB_TYPE_BOOLEAN);
    duckdb_scalar_function weight = setting_new("tuskml_set_weight", d, set_weight);
    setting_parameter(weight, DUCKDB_TYPE_DOUBLE);
    return register_listing(connection) &&
           setting_register(connection, shares, duckdb_create_logical_type(DUCKDB_TYPE_BOOLEAN)) &&
           setting_register(connection, weight, duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE));
}
