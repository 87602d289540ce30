/* The extension of a running function, and the owners of stored models. */
#ifndef TUSK_POSTGRES_EXTENSION_H
#define TUSK_POSTGRES_EXTENSION_H

#include "backend.h"

#include "nodes/pg_list.h"

#include "../../kvstore/mapped/reference.h"

/* Keeps the extension of a running function until the transaction ends: DROP EXTENSION waits.
 * Raises an error if the extension was dropped while the statement was planned. name: of the
 * aggregate. */
void hold_extension(Oid function, const char *name);

/* The function of this name in the schema tuskml, whatever the search path is. */
Oid function_of_ours(const char *name);
/* The composite type of models, which lies in the schema that CREATE EXTENSION named. */
Oid model_type(void);

/* Stored models have owners. Each role of each database has a root of its own,
 * `@DATABASE.ROLE` below tuskml.store_root, both given by oid. A store's folder `readers` lists
 * the oids of the roles that its owner lets read it; 0 means all roles.
 */

/* The root of the current user's own stores; it may not exist yet. */
const char *backend_own_root(void);
/* The root in which the current user may read the model that a reference names; valid as long
 * as the call's memory context. If there is none, returns NULL with an error, which is the same
 * whether the model does not exist or belongs to another role. */
const char *readable_root(const char *reference, size_t length, sealed_error *e);
/* The roots, besides the current user's own, that have a store of this name which it may read. */
List *readable_roots(const char *name);
/* Records the current user for the trainer, until the next call. */
void note_owner(void);

#endif
