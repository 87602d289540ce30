/* _tusk_tree_numbers(payload): the numbers of the trees in a payload, as
 * udas/scalars/models/trees.c has their order; NULL where they are in the field `coef`. */
#include <stdio.h>
#include <stdlib.h>

#include "../../scalars/models/payload.h"
#include "../../scalars/models/quoted.h"
#include "../database.h"

#define NAME "_tusk_tree_numbers"

static bool put_numbers(duckdb_vector result, idx_t row, tusk_text payload, char *sentence) {
    tusk_compact trees;
    const char *sqlstate;
    if (!tusk_compact_trees_of(payload, &trees, sentence, &sqlstate))
        return false;
    uint64_t n = tusk_compact_numbers(&trees);
    double *numbers = malloc(n * sizeof *numbers);
    bool written = numbers && tusk_compact_write(&trees, numbers);
    if (written)
        put_list(result, row, numbers, n);
    else
        snprintf(sentence, TUSK_SENTENCE, "%s",
                 numbers ? "a split of the trees points at no node" : "out of memory");
    free(numbers);
    return written;
}

static void tree_numbers(duckdb_function_info info, duckdb_data_chunk chunk,
                         duckdb_vector result) {
    column payloads = column_of(duckdb_data_chunk_get_vector(chunk, 0));
    idx_t n = duckdb_data_chunk_get_size(chunk);
    for (idx_t row = 0; row < n; row++) {
        char sentence[TUSK_SENTENCE];
        duckdb_string_t *text = (duckdb_string_t *)payloads.data + row;
        tusk_text payload = {NULL, 0};
        if (is_valid(&payloads, row))
            payload = (tusk_text){duckdb_string_t_data(text), duckdb_string_t_length(*text)};
        if (!tusk_has_compact_trees(payload)) {
            set_null(result, row);
        } else if (!put_numbers(result, row, payload, sentence)) {
            tusk_make_utf8(sentence);
            duckdb_scalar_function_set_error(info, sentence);
            return;
        }
    }
}

bool register_tree_numbers(duckdb_connection connection) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type bytes = duckdb_create_logical_type(DUCKDB_TYPE_BLOB);
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE);
    duckdb_logical_type list = duckdb_create_list_type(number);
    duckdb_scalar_function_set_name(f, NAME);
    duckdb_scalar_function_add_parameter(f, bytes);
    duckdb_scalar_function_set_return_type(f, list);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_function(f, tree_numbers);
    bool done = duckdb_register_scalar_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&list);
    duckdb_destroy_logical_type(&number);
    duckdb_destroy_logical_type(&bytes);
    duckdb_destroy_scalar_function(&f);
    return done;
}
