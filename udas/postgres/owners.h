/* Whose stored models are: each role of each database has a root of its own, `@DATABASE.ROLE`
 * below tuskml.store_root, both by oid. A store's folder `readers` names by oid the roles that its
 * owner lets read it, 0 for all.
 */
#ifndef TUSK_POSTGRES_OWNERS_H
#define TUSK_POSTGRES_OWNERS_H

#include "door.h"

#include "nodes/pg_list.h"

#include "../../kvstore/mapped/reference.h"

/* The root of the current user's own stores; it may not be there yet. */
const char *backend_own_root(void);
/* The root in which the current user may read the model that a reference names, as long as the
 * call's memory context; NULL with an error, the same whether there is none or it is another's. */
const char *readable_root(const char *reference, size_t length, sealed_error *e);
/* Roots, besides the current user's own, with a store of this name that it may read. */
List *readable_roots(const char *name);
/* Who trains: for the trainer, until the next call. */
void note_owner(void);

#endif
