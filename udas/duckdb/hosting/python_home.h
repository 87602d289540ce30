/* The Python that trains in a process without one: DuckDB's command line, Node, Java and
   others. */
#ifndef TUSK_PYTHON_HOME_H
#define TUSK_PYTHON_HOME_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

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
