/* Registers a scalar function that sees NULLs. */
#ifndef TUSK_DUCKDB_ADD_FUNCTION_H
#define TUSK_DUCKDB_ADD_FUNCTION_H

#include "../database.h"

/* Registers a function of n arguments, and frees `result`. extra: the function's extra info, which
 * must outlive the function. */
static inline bool add_function(duckdb_connection connection, const char *name,
                                const duckdb_type *arguments, idx_t n, duckdb_logical_type result,
                                duckdb_scalar_function_t body, void *extra) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, name);
    for (idx_t i = 0; i < n; i++) {
        duckdb_logical_type type = duckdb_create_logical_type(arguments[i]);
        duckdb_scalar_function_add_parameter(f, type);
        duckdb_destroy_logical_type(&type);
    }
    duckdb_scalar_function_set_return_type(f, result);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_extra_info(f, extra, NULL);
    duckdb_scalar_function_set_function(f, body);
    bool done = duckdb_register_scalar_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&result);
    duckdb_destroy_scalar_function(&f);
    return done;
}

#endif
