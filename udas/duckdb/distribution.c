/* _tusk_p_value(statistic, degrees of freedom): two-sided p-values, by the Python package's
 * statistics library. */
#include "door.h"

/* Sets *answered, or was broken off; what it returns says nothing. */
typedef int (*p_values)(int64_t n, const double *statistic, const double *freedom, double *p,
                        int32_t *answered);

static p_values library;

/* The Python package sets it once; freedom may be infinite (the normal distribution). */
TUSK_EXPORT void tusk_set_p_values(p_values f) {
    __atomic_store_n(&library, f, __ATOMIC_RELEASE);
}

static void p_value(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output) {
    p_values compute = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
    if (!compute) {
        duckdb_scalar_function_set_error(
            info, "model_summary: the extension was loaded without its Python package: "
                  "call tuskml.load(connection)");
        return;
    }
    const double *statistic = duckdb_vector_get_data(duckdb_data_chunk_get_vector(input, 0));
    const double *freedom = duckdb_vector_get_data(duckdb_data_chunk_get_vector(input, 1));
    idx_t n = duckdb_data_chunk_get_size(input);
    double *p = duckdb_vector_get_data(output);
    int32_t answered = 0;
    compute((int64_t)n, statistic, freedom, p, &answered);
    if (!answered) {
        duckdb_scalar_function_set_error(
            info, "model_summary: the p-values could not be computed: SciPy was interrupted, or "
                  "cannot be imported");
        return;
    }
    for (idx_t i = 0; i < n; i++)
        if (p[i] != p[i])
            set_null(output, i);
}

bool register_distribution(duckdb_connection connection) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE);
    duckdb_scalar_function_set_name(f, "_tusk_p_value");
    duckdb_scalar_function_add_parameter(f, number);
    duckdb_scalar_function_add_parameter(f, number);
    duckdb_scalar_function_set_return_type(f, number);
    duckdb_scalar_function_set_function(f, p_value);
    bool done = duckdb_register_scalar_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&number);
    duckdb_destroy_scalar_function(&f);
    return done;
}
