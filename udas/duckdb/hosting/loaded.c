/* DuckDB's settings when the extension was loaded. */
#include "python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUERY                                                                 \
    "SELECT coalesce(CAST(current_setting('memory_limit') AS VARCHAR), ''), " \
    "coalesce(CAST(current_setting('temp_directory') AS VARCHAR), ''), "      \
    "CAST(current_setting('threads') AS INTEGER)"

/* A size in DuckDB's format, `1.8 GiB`; without a limit it is thousands of PiB. */
static int64_t bytes_of(const char *text) {
    static const char *const UNITS[] = {"byte", "KiB", "MiB", "GiB", "TiB", "PiB"};
    char unit[8] = "";
    double size;
    if (sscanf(text, "%lf %7s", &size, unit) != 2)
        return INT64_MAX;
    for (size_t u = 0; u < sizeof UNITS / sizeof *UNITS; u++, size *= 1024)
        if (strncmp(unit, UNITS[u], strlen(UNITS[u])) == 0)
            return size < 9e18 ? (int64_t)size : INT64_MAX;
    return INT64_MAX;
}

static char *text_of(duckdb_data_chunk chunk, idx_t place) {
    column c = chunk_column(chunk, place);
    return copy_text((duckdb_string_t *)c.data);
}

static bool take_settings(duckdb_data_chunk chunk, database *d) {
    char *limit = text_of(chunk, 0), *directory = text_of(chunk, 1);
    if (limit && directory)
        tusk_memory_limit(d->memory, bytes_of(limit), directory);
    d->loaded_threads = *(const int32_t *)chunk_column(chunk, 2).data;
    bool done = limit && directory;
    free(limit);
    free(directory);
    return done;
}

bool read_loaded(duckdb_connection connection, database *d) {
    duckdb_result result;
    bool done = false;
    if (duckdb_query(connection, QUERY, &result) == DuckDBSuccess) {
        duckdb_data_chunk chunk = duckdb_fetch_chunk(result);
        done = chunk && duckdb_data_chunk_get_size(chunk) && take_settings(chunk, d);
        duckdb_destroy_data_chunk(&chunk);
    }
    duckdb_destroy_result(&result);
    return done;
}
