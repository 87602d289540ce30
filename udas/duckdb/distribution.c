/* _tusk_p_value(statistic, degrees of freedom): two-sided p-values, by the Python package's
 * statistics library, or without it by ours. */
#include "distribution.h"

#include "../scalars/student.h"
#include "door.h"

typedef void (*p_values)(int64_t n, const double *statistic, const double *freedom, double *p);

static p_values library;

/* The Python package sets it once; freedom may be infinite (the normal distribution). */
TUSK_EXPORT void tusk_set_p_values(p_values f) {
    __atomic_store_n(&library, f, __ATOMIC_RELEASE);
}

void two_sided_p(int64_t n, const double *statistic, const double *freedom, double *p) {
    p_values compute = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
    if (compute) {
        compute(n, statistic, freedom, p);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        p[i] = tusk_two_sided_p(statistic[i], freedom[i]);
}

static void p_value(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output) {
    (void)info;
    const double *statistic = duckdb_vector_get_data(duckdb_data_chunk_get_vector(input, 0));
    const double *freedom = duckdb_vector_get_data(duckdb_data_chunk_get_vector(input, 1));
    idx_t n = duckdb_data_chunk_get_size(input);
    double *p = duckdb_vector_get_data(output);
    two_sided_p((int64_t)n, statistic, freedom, p);
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
