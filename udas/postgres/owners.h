/* The owners of stored models. Each role of each database has a root of its own,
 * `@DATABASE.ROLE` below tuskml.store_root, both given by oid. A store's folder `readers` lists
 * the oids of the roles that its owner lets read it; 0 means all roles.
 */
#ifndef TUSK_POSTGRES_OWNERS_H
#define TUSK_POSTGRES_OWNERS_H

#include "backend.h"

#include "nodes/pg_list.h"

#include "../../kvstore/mapped/reference.h"

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
