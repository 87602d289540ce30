/* Which Python trains in a process that has none: DuckDB's command line, Node, Java and others. */
#ifndef TUSK_PYTHON_HOME_H
#define TUSK_PYTHON_HOME_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct python_home {
    char executable[PATH_MAX]; /* of the environment that tuskml is installed in */
    char library[PATH_MAX];    /* libpython, as a shared library; "" if that Python has none */
} python_home;

/* The one that the environment variable TUSKML_PYTHON names, or else the one that
 * `tuskml install` noted beside the extension's file. False if there is none, or if the note may
 * be of somebody who could not have changed the extension; why says it. */
bool python_home_find(python_home *home, const char *extension, char *why, size_t room);

/* Whether TUSKML_PYTHON is "off". */
bool python_is_off(void);

#endif
