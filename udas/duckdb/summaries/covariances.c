/* _tusk_covariances(factor): the rows of the covariance L L' of the coefficients of a model, a
 * list for each of them, from the rows of the lower triangle L, one after another. A list of
 * lists, since macros that join rows copy the whole for each of them. */
#include <stdlib.h>

#include "../../scalars/models/interval.h"
#include "../database.h"

#define NAME "_tusk_covariances"

static void put_rows(duckdb_vector result, idx_t row, const double *factor, idx_t terms,
                     double *covariances) {
    idx_t begin = duckdb_list_vector_get_size(result);
    duckdb_list_vector_reserve(result, begin + terms);
    duckdb_list_vector_set_size(result, begin + terms);
    duckdb_vector rows = duckdb_list_vector_get_child(result);
    for (idx_t i = 0; i < terms; i++) {
        tusk_covariances_of((const tusk_weight *)factor, terms, i, covariances);
        put_list(rows, begin + i, covariances, terms);
    }
    ((duckdb_list_entry *)duckdb_vector_get_data(result))[row] = (duckdb_list_entry){begin, terms};
}

static void covariances(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    list_column lists = list_column_of(duckdb_data_chunk_get_vector(chunk, 0));
    for (idx_t row = 0; row < duckdb_data_chunk_get_size(chunk); row++) {
        if (!is_valid(&lists.self, row)) {
            set_null(result, row);
            continue;
        }
        duckdb_list_entry at = list_entry(&lists, row);
        idx_t terms = tusk_terms_of(at.length);
        double *own = malloc((terms + 1) * sizeof *own);
        if (!own) {
            duckdb_scalar_function_set_error(info, "model_covariance: out of memory");
            return;
        }
        put_rows(result, row, (const double *)lists.child.data + at.offset, terms, own);
        free(own);
    }
}

bool register_covariances(duckdb_connection connection) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE);
    duckdb_logical_type numbers = duckdb_create_list_type(number);
    duckdb_logical_type rows = duckdb_create_list_type(numbers);
    duckdb_scalar_function_set_name(f, NAME);
    duckdb_scalar_function_add_parameter(f, numbers);
    duckdb_scalar_function_set_return_type(f, rows);
    duckdb_scalar_function_set_function(f, covariances);
    bool done = duckdb_register_scalar_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&rows);
    duckdb_destroy_logical_type(&numbers);
    duckdb_destroy_logical_type(&number);
    duckdb_destroy_scalar_function(&f);
    return done;
}
