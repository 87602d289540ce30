/* Calls of the extension's functions in Python. */
#ifndef TUSK_POSTGRES_PYTHON_H
#define TUSK_POSTGRES_PYTHON_H

#include "door.h"

/* A function in Python in the schema of the function that asks, whatever the search path is. */
typedef struct python_function {
    const char *name;
    int n_arguments;
    Oid arguments[2];
    Oid asking, found; /* of the last call */
} python_function;

/* Its answer. Where Python itself fails the error is one sentence; caller: whom it names. */
Datum call_python(python_function *function, Oid asking, const char *caller,
                  const NullableDatum *arguments);

#endif
