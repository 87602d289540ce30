/* _tusk_class_place(names, class): the index from 1 on of a class among the names of a model's
 * classes, by its name or its number; NULL for a class that the model never saw. */
#include "../../scalars/metrics/shares.h"
#include "../database.h"

typedef struct names {
    const column *texts;
    idx_t first;
} names;

static const char *name_at(int64_t k, size_t *length, const void *of) {
    const names *n = of;
    idx_t row = n->first + (idx_t)k;
    if (!is_valid(n->texts, row))
        return NULL;
    duckdb_string_t *text = (duckdb_string_t *)n->texts->data + row;
    *length = duckdb_string_t_length(*text);
    return duckdb_string_t_data(text);
}

static void class_place(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    (void)info;
    list_column lists = list_column_of(duckdb_data_chunk_get_vector(chunk, 0));
    column classes = chunk_column(chunk, 1);
    int64_t *place = duckdb_vector_get_data(result);
    for (idx_t row = 0; row < duckdb_data_chunk_get_size(chunk); row++) {
        int64_t found = -1;
        if (is_valid(&lists.self, row) && is_valid(&classes, row)) {
            duckdb_list_entry at = list_entry(&lists, row);
            duckdb_string_t *given = (duckdb_string_t *)classes.data + row;
            found =
                tusk_class_place(duckdb_string_t_data(given), duckdb_string_t_length(*given),
                                 (int64_t)at.length, name_at, &(names){&lists.child, at.offset});
        }
        if (found < 0)
            set_null(result, row);
        else
            place[row] = found + 1;
    }
}

bool register_class_place(duckdb_connection connection) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type text = duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR);
    duckdb_logical_type texts = duckdb_create_list_type(text);
    duckdb_logical_type whole = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
    duckdb_scalar_function_set_name(f, "_tusk_class_place");
    duckdb_scalar_function_add_parameter(f, texts);
    duckdb_scalar_function_add_parameter(f, text);
    duckdb_scalar_function_set_return_type(f, whole);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_function(f, class_place);
    bool done = duckdb_register_scalar_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&whole);
    duckdb_destroy_logical_type(&texts);
    duckdb_destroy_logical_type(&text);
    duckdb_destroy_scalar_function(&f);
    return done;
}
