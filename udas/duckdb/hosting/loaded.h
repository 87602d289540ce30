/* DuckDB's settings when the extension was loaded. DuckDB's C interface reads settings by SQL
 * only, which a running function cannot use. The Python package follows changes if it has a
 * connection; other clients know these values only. */
#ifndef TUSK_LOADED_H
#define TUSK_LOADED_H

#include "../database.h"

/* Reads them, and gives memory_limit and temp_directory to the account of the rows. False if
 * memory is out. */
bool read_loaded(duckdb_connection connection, database *d);

#endif
