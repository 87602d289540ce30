/* Calls to the extension's Python functions. */
#ifndef TUSK_POSTGRES_PYTHON_H
#define TUSK_POSTGRES_PYTHON_H

#include "backend.h"

/* A Python function in the schema of the function that calls it, whatever the search path is. */
typedef struct python_function {
    const char *name;
    int n_arguments;
    Oid arguments[2];
    Oid asking, found; /* of the last call */
} python_function;

/* Returns the function's answer. If Python itself fails, the error is one sentence. caller: the
 * function that it names. */
Datum call_python(python_function *function, Oid asking, const char *caller,
                  const NullableDatum *arguments);

#endif
