/* Two-sided p-values, from the Python package's statistics library if there is one, otherwise
 * from our own code; and _tusk_p_value(statistic, degrees of freedom). */
#include "distribution.h"

#include <math.h>

#include "../../scalars/student.h"
#include "../database.h"

/* Sets *answered unless it was interrupted; ignore the return value. */
typedef int (*p_values)(int64_t n, const double *statistic, const double *freedom, double *p,
                        int32_t *answered);

static p_values library;

/* The Python package sets it once. freedom may be infinite, which means the normal
 * distribution. */
TUSK_EXPORT void tusk_set_p_values(p_values f) {
    __atomic_store_n(&library, f, __ATOMIC_RELEASE);
}

bool two_sided_p(int64_t n, const double *statistic, const double *freedom, double *p) {
    p_values compute = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
    if (compute) {
        int32_t answered = 0;
        compute(n, statistic, freedom, p, &answered);
        return answered;
    }
    for (int64_t i = 0; i < n; i++)
        p[i] = tusk_two_sided_p(statistic[i], freedom[i]);
    return true;
}

/* Returns false without a result. Where a vector is NULL, DuckDB leaves an arbitrary number,
 * often that of another row. */
static bool p_of_known(const column *statistic, const column *freedom, idx_t n, double *p) {
    double t[CHUNK_ROWS], df[CHUNK_ROWS];
    for (idx_t at = 0; at < n; at += CHUNK_ROWS) {
        idx_t rows = n - at < CHUNK_ROWS ? n - at : CHUNK_ROWS;
        for (idx_t i = 0; i < rows; i++) {
            bool known = is_valid(statistic, at + i) && is_valid(freedom, at + i);
            t[i] = known ? ((const double *)statistic->data)[at + i] : NAN;
            df[i] = known ? ((const double *)freedom->data)[at + i] : NAN;
        }
        if (!two_sided_p((int64_t)rows, t, df, p + at))
            return false;
    }
    return true;
}

static void p_value(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output) {
    column statistic = chunk_column(input, 0), freedom = chunk_column(input, 1);
    idx_t n = duckdb_data_chunk_get_size(input);
    double *p = duckdb_vector_get_data(output);
    if (!p_of_known(&statistic, &freedom, n, p)) {
        duckdb_scalar_function_set_error(info, NO_P_VALUES);
        return;
    }
    for (idx_t i = 0; i < n; i++)
        if (isnan(p[i]))
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
