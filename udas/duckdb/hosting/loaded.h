/* What DuckDB's settings were when the extension was loaded.
 *
 * DuckDB's C interface reads settings by SQL only, which a function that runs cannot use. The
 * Python package follows changes where it has a connection; in other clients this is all that is
 * known. */
#ifndef TUSK_LOADED_H
#define TUSK_LOADED_H

#include "../database.h"

/* Reads them, and gives memory_limit and temp_directory to the account of the rows. False if
 * memory is out. */
bool read_loaded(duckdb_connection connection, database *d);

#endif
