/* Creates the macros that are written in SQL, if the database keeps them only in memory. */
#include <stdlib.h>
#include <string.h>

#include "database.h"
#include "macros.h" /* written by the build: sql/duckdb, macros.sql and names.sql */

#define IN_MEMORY \
    "SELECT 1 FROM duckdb_databases() WHERE database_name = current_database() AND path IS NULL"

/* Whether the query returns a row; *done is false if it failed. */
static bool has_row(duckdb_connection connection, const char *query, bool *done) {
    duckdb_result result;
    *done = duckdb_query(connection, query, &result) == DuckDBSuccess;
    duckdb_data_chunk chunk = *done ? duckdb_fetch_chunk(result) : NULL;
    bool found = chunk && duckdb_data_chunk_get_size(chunk);
    duckdb_destroy_data_chunk(&chunk);
    duckdb_destroy_result(&result);
    return found;
}

/* A temporary macro belongs to its connection, and this connection is not the user's. */
bool create_macros(duckdb_connection connection) {
    static const char TEMP[] = "TEMP MACRO";
    bool done;
    if (!has_row(connection, IN_MEMORY, &done))
        return done;
    char *text = strdup(MACROS);
    if (!text)
        return false;
    for (char *at = text; (at = strstr(at, TEMP));)
        memset(at, ' ', strlen("TEMP"));
    duckdb_result result;
    done = duckdb_query(connection, text, &result) == DuckDBSuccess;
    duckdb_destroy_result(&result);
    free(text);
    return done;
}
