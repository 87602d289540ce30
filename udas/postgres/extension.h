#ifndef TUSK_POSTGRES_EXTENSION_H
#define TUSK_POSTGRES_EXTENSION_H

#include "door.h"

/* Keeps the extension of a function that runs until the transaction ends: DROP EXTENSION waits. An
 * error when the extension went while the statement was planned. name: of the aggregate. */
void hold_extension(Oid function, const char *name);

#endif
