/* _tusk_rounds(source, task, label, features, options, weight, offset, named options, keys):
 * the text of a statement that trains on some row groups of a table or of Parquet files, or by
 * name on columns that are not all numbers, or on a cluster; NULL if a training reads all rows
 * of a list of numbers. The macro `train` runs it. The Python package writes it, while DuckDB
 * plans the macro's statement. */
#include <stdatomic.h>
#include <stdlib.h>

#include "../database.h"

#define TEXTS 9

typedef struct place {
    duckdb_vector result;
    idx_t row;
} place;

typedef void (*rounds_writer)(place *where, int64_t account, char *const *texts);

static _Atomic(rounds_writer) writer;

/* The Python package sets it once. */
TUSK_EXPORT void tusk_set_rounds(rounds_writer f) {
    atomic_store(&writer, f);
}

/* Sets the writer's result. */
TUSK_EXPORT void tusk_rounds_text(place *where, const char *text) {
    duckdb_validity_set_row_valid(duckdb_vector_get_validity(where->result), where->row);
    duckdb_vector_assign_string_element(where->result, where->row, text);
}

static void write_row(database *d, rounds_writer write, const column *given, place where) {
    char *texts[TEXTS] = {0};
    bool known = true;
    for (int i = 0; i < TEXTS; i++)
        known = known && is_valid(given + i, where.row) &&
                (texts[i] = copy_text((duckdb_string_t *)given[i].data + where.row)) != NULL;
    if (known)
        write(&where, (int64_t)(intptr_t)d, texts);
    for (int i = 0; i < TEXTS; i++)
        free(texts[i]);
}

static void rounds(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    rounds_writer write = atomic_load_explicit(&writer, memory_order_acquire);
    column given[TEXTS];
    for (idx_t i = 0; i < TEXTS; i++)
        given[i] = chunk_column(chunk, i);
    idx_t n = duckdb_data_chunk_get_size(chunk);
    for (idx_t row = 0; row < n; row++) {
        set_null(result, row);
        if (write)
            write_row(duckdb_scalar_function_get_extra_info(info), write, given,
                      (place){result, row});
    }
}

/* Not volatile: the text has to be known when the statement is planned. */
bool register_rounds(duckdb_connection connection, database *d) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, "_tusk_rounds");
    duckdb_scalar_function_set_extra_info(f, database_retain(d), database_release);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_function(f, rounds);
    for (int i = 0; i < TEXTS; i++)
        setting_parameter(f, DUCKDB_TYPE_VARCHAR);
    return setting_register(connection, f, duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR));
}
