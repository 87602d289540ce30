#ifndef TUSK_POSTGRES_EXTENSION_H
#define TUSK_POSTGRES_EXTENSION_H

#include "backend.h"

/* Keeps the extension of a running function until the transaction ends: DROP EXTENSION waits.
 * Raises an error if the extension was dropped while the statement was planned. name: of the
 * aggregate. */
void hold_extension(Oid function, const char *name);

/* The function of this name in the schema tuskml, whatever the search path is. */
Oid function_of_ours(const char *name);
/* The composite type of models, which lies in the schema that CREATE EXTENSION named. */
Oid model_type(void);

#endif
