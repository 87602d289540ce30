/* tuskml_set_store_root and tuskml_store_root: set and read the directory of the stores from
 * SQL.
 *
 * A training or a prediction may read the path while another connection sets it, so every path
 * that was set lives as long as the database.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../kvstore/mapped/default_root.h"
#include "database.h"

#define EVERY_MS 100

struct store_path {
    const store_path *before;
    char text[];
};

static bool set_path(database *d, const char *text, size_t length) {
    store_path *made = malloc(sizeof *made + length + 1);
    if (!made)
        return false;
    memcpy(made->text, text, length);
    made->text[length] = 0;
    made->before = __atomic_load_n(&d->store_path, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&d->store_path, &made->before, made, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    atomic_store(&d->readable_at, -EVERY_MS); /* the new root has not been checked yet */
    return true;
}

bool store_root_default(database *d) {
    char path[PATH_MAX];
    return !tusk_default_root(path, sizeof path) || set_path(d, path, strlen(path));
}

const char *store_root(const database *d) {
    const store_path *now = __atomic_load_n(&d->store_path, __ATOMIC_ACQUIRE);
    return now ? now->text : NULL;
}

void store_root_free(database *d) {
    for (const store_path *p = d->store_path, *before; p; p = before) {
        before = p->before;
        free((void *)p);
    }
}

/* --- permissions by the settings --- */

typedef int (*files_rule)(int64_t account, const char *path, int move, char *sentence);

static _Atomic(files_rule) rule;

/* The Python package sets it once. */
TUSK_EXPORT void tusk_set_files_rule(files_rule f) {
    atomic_store(&rule, f);
}

bool files_allowed(const database *d, const char *path, bool move, char *sentence) {
    files_rule ask = atomic_load_explicit(&rule, memory_order_acquire);
    return !ask || ask((int64_t)(intptr_t)d, path, move, sentence);
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A check takes milliseconds and a query predicts chunk by chunk, so the result is cached for a
 * while. */
bool stores_readable(database *d, const char *path, char *sentence) {
    int64_t now = now_ms();
    if (now - atomic_load_explicit(&d->readable_at, memory_order_relaxed) < EVERY_MS)
        return true;
    if (!files_allowed(d, path, false, sentence))
        return false;
    atomic_store_explicit(&d->readable_at, now, memory_order_relaxed);
    return true;
}

/* For the program that embeds the database; no setting of SQL restricts it. */
TUSK_EXPORT int tusk_set_root(int64_t account, const char *path) {
    return set_path((database *)(intptr_t)account, path, strlen(path));
}

/* --- SQL --- */

static database *database_of(duckdb_function_info info) {
    return duckdb_scalar_function_get_extra_info(info);
}

static const char *copied(char *path, const char *text, size_t length) {
    memcpy(path, text, length);
    path[length] = 0;
    return path;
}

static bool set_one(duckdb_function_info info, duckdb_string_t *given) {
    const char *text = duckdb_string_t_data(given);
    size_t length = duckdb_string_t_length(*given);
    const char *now = store_root(database_of(info)), *wrong = NULL;
    char path[PATH_MAX], why[FILES_SENTENCE], sentence[FILES_SENTENCE + 32];
    if (now && strlen(now) == length && memcmp(now, text, length) == 0)
        return true;
    if (!length || text[0] != '/' || length >= PATH_MAX || memchr(text, 0, length))
        wrong = "tuskml_set_store_root: path is not absolute, expected one such as "
                "'/var/lib/tuskml/stores'";
    else if (!files_allowed(database_of(info), copied(path, text, length), true, why)) {
        snprintf(sentence, sizeof sentence, "tuskml_set_store_root: %s", why);
        wrong = sentence;
    } else if (!set_path(database_of(info), text, length))
        wrong = "tuskml_set_store_root: out of memory";
    if (wrong)
        duckdb_scalar_function_set_error(info, wrong);
    return !wrong;
}

static void set_store_root(duckdb_function_info info, duckdb_data_chunk chunk,
                           duckdb_vector result) {
    column path = chunk_column(chunk, 0);
    idx_t n = duckdb_data_chunk_get_size(chunk);
    for (idx_t row = 0; row < n; row++) {
        duckdb_string_t *given = (duckdb_string_t *)path.data + row;
        if (!is_valid(&path, row)) {
            set_null(result, row);
            continue;
        }
        if (!set_one(info, given))
            return;
        duckdb_vector_assign_string_element_len(result, row, duckdb_string_t_data(given),
                                                duckdb_string_t_length(*given));
    }
}

static void read_store_root(duckdb_function_info info, duckdb_data_chunk chunk,
                            duckdb_vector result) {
    const char *path = store_root(database_of(info));
    idx_t n = duckdb_data_chunk_get_size(chunk);
    for (idx_t row = 0; row < n; row++) {
        if (path)
            duckdb_vector_assign_string_element(result, row, path);
        else
            set_null(result, row);
    }
}

bool register_store_root(duckdb_connection connection, database *d) {
    duckdb_scalar_function set = setting_new("tuskml_set_store_root", d, set_store_root);
    setting_parameter(set, DUCKDB_TYPE_VARCHAR);
    duckdb_scalar_function read = setting_new("tuskml_store_root", d, read_store_root);
    return setting_register(connection, set, duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR)) &
           setting_register(connection, read, duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR));
}
