#ifndef TUSK_POSTGRES_EXTENSION_H
#define TUSK_POSTGRES_EXTENSION_H

#include "backend.h"

/* Keeps the extension of a running function until the transaction ends: DROP EXTENSION waits.
 * Raises an error if the extension was dropped while the statement was planned. name: the
 * aggregate's. */
void hold_extension(Oid function, const char *name);

#endif
