/* tuskml_cancel(): ends all trainings of the process, from another connection. */
#include "../database.h"
#include "../training/interrupt.h"

static void cancel(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    (void)info;
    bool *out = duckdb_vector_get_data(result);
    idx_t n = duckdb_data_chunk_get_size(chunk);
    if (n)
        cancel_trainings();
    for (idx_t row = 0; row < n; row++)
        out[row] = true;
}

bool register_cancel(duckdb_connection connection, database *d) {
    return setting_register(connection, setting_new("tuskml_cancel", d, cancel),
                            duckdb_create_logical_type(DUCKDB_TYPE_BOOLEAN));
}
