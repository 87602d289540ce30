/* tuskml_set_memory and tuskml_memory: set and read the database's memory account from SQL. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "database.h"

#define MUCH ((int64_t)16 << 20)
#define EVERY_MS 100

typedef void (*limits_reader)(int64_t account);

static _Atomic(limits_reader) reader;

/* The Python package sets it once. Its account is the one that tusk_account returns. */
TUSK_EXPORT void tusk_set_limits_reader(limits_reader f) {
    atomic_store(&reader, f);
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void look_at_limits(database *d) {
    tusk_memory_use use;
    tusk_memory_used(d->memory, &use);
    if (use.resident + use.spilled < MUCH)
        return;
    limits_reader read = atomic_load_explicit(&reader, memory_order_acquire);
    int64_t now = now_ms(), last = atomic_load_explicit(&d->looked_at, memory_order_relaxed);
    if (read && now - last >= EVERY_MS &&
        atomic_compare_exchange_strong(&d->looked_at, &last, now))
        read((int64_t)(intptr_t)d);
}

int32_t threads_of_host(const database *d) {
    return atomic_load_explicit(&reader, memory_order_acquire) ? 0 : d->loaded_threads;
}

void look_again(database *d) {
    atomic_store_explicit(&d->looked_at, 0, memory_order_relaxed);
}

static void account(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    int64_t *out = duckdb_vector_get_data(result);
    idx_t n = duckdb_data_chunk_get_size(chunk);
    for (idx_t row = 0; row < n; row++)
        out[row] = (int64_t)(intptr_t)duckdb_scalar_function_get_extra_info(info);
}

static tusk_memory *memory_of(duckdb_function_info info) {
    return ((database *)duckdb_scalar_function_get_extra_info(info))->memory;
}

static bool refuse(duckdb_function_info info, const char *sentence) {
    duckdb_scalar_function_set_error(info, sentence);
    return false;
}

static bool set_limit(duckdb_function_info info, int64_t budget, duckdb_string_t *directory) {
    if (budget < 0)
        return refuse(info, "tuskml_set_memory: budget is negative, expected a number of bytes");
    char *path = copy_text(directory);
    if (!path)
        return refuse(info, "tuskml_set_memory: out of memory");
    char why[FILES_SENTENCE], sentence[FILES_SENTENCE + 32];
    bool allowed = files_allowed(duckdb_scalar_function_get_extra_info(info), path, true, why);
    if (allowed)
        tusk_memory_limit(memory_of(info), budget, path);
    free(path);
    snprintf(sentence, sizeof sentence, "tuskml_set_memory: %s", allowed ? "" : why);
    return allowed || refuse(info, sentence);
}

/* Records DuckDB's own settings. No setting of DuckDB forbids this call. */
TUSK_EXPORT int tusk_tell_limits(int64_t account, int64_t budget, const char *directory) {
    tusk_memory_limit(((database *)(intptr_t)account)->memory, budget, directory);
    return 1;
}

static void set_memory(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    column budget = chunk_column(chunk, 0), directory = chunk_column(chunk, 1);
    idx_t n = duckdb_data_chunk_get_size(chunk);
    int64_t *out = duckdb_vector_get_data(result);
    for (idx_t row = 0; row < n; row++) {
        if (!is_valid(&budget, row) || !is_valid(&directory, row)) {
            set_null(result, row);
            continue;
        }
        out[row] = ((const int64_t *)budget.data)[row];
        if (!set_limit(info, out[row], (duckdb_string_t *)directory.data + row))
            return;
    }
}

static const char *const USE_FIELDS[] = {"budget", "resident", "spilled", "peak"};

static void read_memory(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    tusk_memory_use use;
    tusk_memory_used(memory_of(info), &use);
    const int64_t values[] = {use.budget, use.resident, use.spilled, use.peak};
    idx_t n = duckdb_data_chunk_get_size(chunk);
    for (idx_t f = 0; f < 4; f++) {
        int64_t *out = duckdb_vector_get_data(duckdb_struct_vector_get_child(result, f));
        for (idx_t row = 0; row < n; row++)
            out[row] = values[f];
    }
}

static duckdb_logical_type make_use_type(void) {
    duckdb_logical_type bytes = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
    duckdb_logical_type types[] = {bytes, bytes, bytes, bytes};
    duckdb_logical_type use = duckdb_create_struct_type(types, (const char **)USE_FIELDS, 4);
    duckdb_destroy_logical_type(&bytes);
    return use;
}

void setting_parameter(duckdb_scalar_function f, duckdb_type id) {
    duckdb_logical_type type = duckdb_create_logical_type(id);
    duckdb_scalar_function_add_parameter(f, type);
    duckdb_destroy_logical_type(&type);
}

duckdb_scalar_function setting_new(const char *name, database *d, duckdb_scalar_function_t body) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, name);
    duckdb_scalar_function_set_volatile(f);
    duckdb_scalar_function_set_extra_info(f, database_retain(d), database_release);
    duckdb_scalar_function_set_function(f, body);
    return f;
}

bool setting_register(duckdb_connection connection, duckdb_scalar_function f,
                      duckdb_logical_type result) {
    duckdb_scalar_function_set_return_type(f, result);
    bool done = duckdb_register_scalar_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&result);
    duckdb_destroy_scalar_function(&f);
    return done;
}

/* The first macro of macros.sql is called so, without the full stop, and calls this function.
 * EXPORT DATABASE writes the macros of a database in memory. A database without tuskml that
 * imports them lacks the function, and one in memory with tuskml has the macro already: the name
 * is then in DuckDB's error. */
#define IMPORTED                                                              \
    "_tusk: IMPORT an exported database in memory into a database file that " \
    "tuskml.connect(path) opens."

bool register_settings(duckdb_connection connection, database *d) {
    duckdb_scalar_function set = setting_new("tuskml_set_memory", d, set_memory);
    setting_parameter(set, DUCKDB_TYPE_BIGINT);
    setting_parameter(set, DUCKDB_TYPE_VARCHAR);
    duckdb_scalar_function read = setting_new("tuskml_memory", d, read_memory);
    duckdb_scalar_function name = setting_new("_tusk_account", d, account);
    duckdb_scalar_function imported = setting_new(IMPORTED, d, account);
    return setting_register(connection, name, duckdb_create_logical_type(DUCKDB_TYPE_BIGINT)) &
           setting_register(connection, set, duckdb_create_logical_type(DUCKDB_TYPE_BIGINT)) &
           setting_register(connection, imported, duckdb_create_logical_type(DUCKDB_TYPE_BIGINT)) &
           setting_register(connection, read, make_use_type());
}
