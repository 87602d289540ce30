/* Starts the Python that trains, in a process that was loaded without tuskml's package. */
#ifndef TUSK_PYTHON_H
#define TUSK_PYTHON_H

#include "../database.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define PYTHON_SENTENCE 1024

/* Starts Python; true once the package has set the trainer. On failure writes why. Any thread
 * may call it; one of them starts Python, the others wait. */
bool python_starts(char why[static PYTHON_SENTENCE]);

/* DuckDB's settings when the extension was loaded. DuckDB's C interface reads settings by SQL
 * only, which a running function cannot use. The Python package follows changes if it has a
 * connection; other clients know these values only. */

/* Reads them, and gives memory_limit and temp_directory to the account of the rows. False if
 * memory is out. */
bool read_loaded(duckdb_connection connection, database *d);

/* The Python that trains in a process without one: DuckDB's command line, Node, Java and
   others. */

typedef struct python_home {
    char executable[PATH_MAX]; /* of the environment that tuskml is installed in */
    char library[PATH_MAX];    /* libpython, as a shared library; "" if that Python has none */
} python_home;

/* Finds the Python of the environment variable TUSKML_PYTHON, or else the one that `tuskml
 * install` recorded next to the extension's file. False, with the reason in why, if there is
 * none, or if the record may come from a user who could not have changed the extension. */
bool python_home_find(python_home *home, const char *extension, char *why, size_t room);

/* Whether TUSKML_PYTHON is "off". */
bool python_is_off(void);

#endif
