/* Creates the macros and the type that are written in SQL, which a database file never keeps. A
 * database in memory has them itself. For a database file they are in an attached database in
 * memory, since a temporary macro belongs to its connection, and this connection is not the
 * user's. The package makes temporary ones in its connections itself. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database.h"
#include "macros.h" /* written by the build (scripts/build/macros.py), a mark before their names */

#define MARK '\1'
#define CATALOG "tuskml_macros" /* SHARED in front/databases/connection.py */
#define SCHEMA CATALOG ".main."
#define IN_MEMORY \
    "SELECT 1 FROM duckdb_databases() WHERE database_name = current_database() AND path IS NULL"

static atomic_int package_loads;

/* Whether the package is loading the extension: then it creates the macros for files itself. */
TUSK_EXPORT void tusk_package_loads(int now) {
    atomic_store(&package_loads, now);
}

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

static bool run(duckdb_connection connection, const char *text) {
    duckdb_result result;
    bool done = duckdb_query(connection, text, &result) == DuckDBSuccess;
    duckdb_destroy_result(&result);
    return done;
}

/* The text with the schema in place of each mark and without TEMP, to be freed. */
static char *macros_in(const char *schema) {
    static const char TEXT[] = MACROS, TEMP[] = " TEMP ";
    size_t marks = 0, length = strlen(schema);
    for (const char *at = TEXT; *at; at++)
        marks += *at == MARK;
    char *made = malloc(sizeof TEXT + marks * length), *to = made;
    if (!made)
        return NULL;
    for (const char *at = TEXT; *at; at++) {
        if (*at == MARK) {
            memcpy(to, schema, length);
            to += length;
        } else {
            *to++ = *at;
        }
    }
    *to = 0;
    for (char *at = made; (at = strstr(at, TEMP));)
        memset(at, ' ', strlen(TEMP));
    return made;
}

/* Prints which names are those of the database's own macros; the package warns of them itself. */
static void tell_taken(duckdb_connection connection) {
    duckdb_result result;
    if (duckdb_query(connection, TAKEN, &result) == DuckDBSuccess) {
        duckdb_data_chunk chunk = duckdb_fetch_chunk(result);
        if (chunk && duckdb_data_chunk_get_size(chunk)) {
            duckdb_string_t *sentence = (duckdb_string_t *)chunk_column(chunk, 1).data;
            fprintf(stderr, "tuskml: %.*s\n", (int)duckdb_string_t_length(*sentence),
                    duckdb_string_t_data(sentence));
        }
        duckdb_destroy_data_chunk(&chunk);
    }
    duckdb_destroy_result(&result);
}

bool create_macros(duckdb_connection connection) {
    bool done, by_package = atomic_load(&package_loads);
    bool in_memory = has_row(connection, IN_MEMORY, &done);
    if (!done)
        return false;
    /* A program may attach nothing, or has such a database. */
    if (in_memory ||
        (!by_package && run(connection, "ATTACH ':memory:' AS " CATALOG " (READ_WRITE)"))) {
        char *text = macros_in(in_memory ? "" : SCHEMA);
        done = text && run(connection, text);
        free(text);
    }
    if (done && !by_package)
        tell_taken(connection);
    return done;
}
