/* The call of the extension's function in Python. */
#ifndef TUSK_POSTGRES_PYTHON_H
#define TUSK_POSTGRES_PYTHON_H

#include "backend.h"

/* Calls a function without arguments of the schema tuskml, whatever the search path is. If Python
 * itself fails, the error is one sentence. caller: the function that it names. */
void call_python(const char *name, const char *caller);

#endif
