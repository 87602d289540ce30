#include "extension.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "training/trainer.h"

#define OWNER_ROOT "%s/@%u.%u"
#define READERS "readers"

PGDLLEXPORT const char *tuskml_store_owner(void);
PGDLLEXPORT const char *tuskml_store_roots(const char *name);

/* A root that one role of one database owns. */
typedef struct owned_root {
    Oid database, role;
} owned_root;

static char *root_of(Oid database, Oid role) {
    return psprintf(OWNER_ROOT, backend_store_root(), database, role);
}

const char *backend_own_root(void) {
    return root_of(MyDatabaseId, GetUserId());
}

/* --- directories --- */

/* The names in a directory; none if it does not exist. If the statement fails on the way, the
 * server closes the directory. */
static List *names_in(const char *path) {
    List *found = NIL;
    DIR *folder = AllocateDir(path);
    if (!folder)
        return NIL;
    for (const struct dirent *each; (each = ReadDirExtended(folder, path, LOG));)
        if (each->d_name[0] != '.')
            found = lappend(found, pstrdup(each->d_name));
    FreeDir(folder);
    return found;
}

static bool is_folder(const char *path) {
    struct stat about;
    return lstat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool has_store(const char *root, const char *name) {
    return is_folder(psprintf("%s/%s", root, name));
}

/* Reads an oid written as in "12", and accepts no other spelling of the number. */
static bool read_oid(const char *text, const char **end, Oid *oid) {
    char *after;
    errno = 0;
    unsigned long number = strtoul(text, &after, 10);
    *end = after;
    *oid = (Oid)number;
    return text[0] >= '0' && text[0] <= '9' && !errno && number <= PG_UINT32_MAX;
}

static bool read_owned(const char *name, owned_root *o) {
    const char *end;
    return name[0] == '@' && read_oid(name + 1, &end, &o->database) && *end == '.' &&
           read_oid(end + 1, &end, &o->role) && !*end;
}

/* --- permissions --- */

static bool acts_for(Oid role) {
    return has_privs_of_role(GetUserId(), role);
}

static bool is_reader(const char *root, const char *name) {
    ListCell *cell;
    foreach (cell, names_in(psprintf("%s/%s/" READERS, root, name))) {
        const char *end;
        Oid role;
        if (read_oid(lfirst(cell), &end, &role) && !*end && (!role || acts_for(role)))
            return true;
    }
    return false;
}

/* The roots of this database that have a store of this name, except the caller's own. If
 * readers is true: those that the caller may read; otherwise: those of roles that it acts for.
 * A superuser reads the roots of all databases, so that a dump restored elsewhere keeps its
 * models. */
static List *roots_with(const char *name, bool readers) {
    List *found = NIL;
    ListCell *cell;
    foreach (cell, names_in(backend_store_root())) {
        owned_root o;
        if (!read_owned(lfirst(cell), &o) || (o.database != MyDatabaseId && !superuser()) ||
            (o.database == MyDatabaseId && o.role == GetUserId()))
            continue;
        char *root = root_of(o.database, o.role);
        if ((acts_for(o.role) || (readers && is_reader(root, name))) && has_store(root, name))
            found = lappend(found, root);
    }
    return found;
}

List *readable_roots(const char *name) {
    List *found = roots_with(name, true);
    const char *shared = backend_store_root(); /* from before owners, or created by hand */
    if (has_store(shared, name) && (superuser() || is_reader(shared, name)))
        found = lappend(found, pstrdup(shared));
    return found;
}

static const char *root_with(List *roots, const store_reference *r) {
    ListCell *cell;
    foreach (cell, roots)
        if (store_reference_in(lfirst(cell), r))
            return lfirst(cell);
    return NULL;
}

/* A store directly below the root has no owner. Anyone who has the model value may read it,
 * because the value identifies the content by 64 bits. This is how stores worked before owners. */
const char *readable_root(const char *reference, size_t length, sealed_error *e) {
    store_reference r;
    if (!store_reference_parse(reference, length, &r, e))
        return NULL;
    const char *own = backend_own_root(), *shared = backend_store_root();
    if (store_reference_in(own, &r))
        return own;
    if (store_reference_in(shared, &r))
        return shared;
    const char *other = root_with(readable_roots(r.name), &r);
    if (other)
        return other;
    if (has_store(own, r.name))
        return own; /* its reader reports that the version does not exist */
    if (superuser() && has_store(shared, r.name))
        return shared;
    sealed_refuse(e, SEALED_UNKNOWN,
                  "there is no stored model %s that you may read: it is not there, or its owner "
                  "has not called grant_store for your role",
                  r.text);
    return NULL;
}

/* --- called by the trainer --- */

static StringInfoData noted, roots;

static void start(StringInfo text) {
    if (!text->data) {
        MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);
        initStringInfo(text);
        MemoryContextSwitchTo(before);
    }
    resetStringInfo(text);
}

/* As JSON. While a statement trains, the text is the same for all its models. */
void note_owner(void) {
    const char *database = get_database_name(MyDatabaseId);
    const char *role = GetUserNameFromId(GetUserId(), true);
    start(&noted);
    appendStringInfoString(&noted, "{\"role\": ");
    escape_json(&noted, role ? role : "");
    appendStringInfo(&noted, ", \"role_id\": %u, \"database\": ", GetUserId());
    escape_json(&noted, database ? database : "");
    appendStringInfo(&noted, ", \"database_id\": %u, \"training\": \"%d.%lld\"}", MyDatabaseId,
                     MyProcPid, (long long)GetCurrentStatementStartTimestamp());
}

const char *tuskml_store_owner(void) {
    return tuskml_current_batch() ? noted.data : NULL;
}

/* The paths, one a line. NULL if there was an error: it is kept, and raised after Python
 * returns. */
const char *tuskml_store_roots(const char *name) {
    volatile bool done = false;
    MemoryContext before = CurrentMemoryContext;
    if (!tuskml_current_batch())
        return NULL;
    PG_TRY();
    {
        ListCell *cell;
        start(&roots);
        foreach (cell, readable_roots(name))
            appendStringInfo(&roots, "%s\n", (char *)lfirst(cell));
        done = true;
    }
    PG_CATCH();
    {
        keep_batch_failure();
    }
    PG_END_TRY();
    MemoryContextSwitchTo(before);
    return done ? roots.data : NULL;
}

/* --- grants --- */

static char *text_argument(FunctionCallInfo fcinfo, int i, const char *function) {
    if (PG_ARGISNULL(i))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("%s: %s is NULL, expected a name", function,
                               i ? "the role" : "the store")));
    return text_to_cstring(PG_GETARG_TEXT_PP(i));
}

/* The caller's own store, otherwise that of a role it acts for. The error does not reveal
 * whether someone else has a store of this name. */
static const char *granted_root(const char *name, const char *function) {
    if (store_name_valid(name, strlen(name))) {
        const char *own = backend_own_root(), *shared = backend_store_root();
        if (has_store(own, name))
            return own;
        List *found = roots_with(name, false);
        if (superuser() && has_store(shared, name))
            found = lappend(found, pstrdup(shared));
        if (list_length(found) > 1)
            ereport(ERROR, (errcode(ERRCODE_AMBIGUOUS_PARAMETER),
                            errmsg("%s: %d roles have a store named '%s', expected one: SET ROLE "
                                   "to its owner first",
                                   function, list_length(found), name)));
        if (found)
            return linitial(found);
    }
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                    errmsg("%s: there is no store named '%s' that is yours", function, name)));
}

static void refuse_file(const char *function, const char *name) {
    ereport(ERROR,
            (errcode_for_file_access(),
             errmsg("%s: writing the readers of the store '%s' failed: %m", function, name)));
}

static void write_reader(const char *folder, Oid role, const char *function, const char *name) {
    if (mkdir(folder, 0700) && errno != EEXIST)
        refuse_file(function, name);
    if (!is_folder(folder))
        ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                        errmsg("%s: the readers of the store '%s' are no directory, and links "
                               "are not followed",
                               function, name)));
    int file =
        open(psprintf("%s/%u", folder, role), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        refuse_file(function, name);
    close(file);
}

static void sync_folder(const char *folder) {
    int handle = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0)
        return;
    fsync(handle);
    close(handle);
}

static Datum change_readers(FunctionCallInfo fcinfo, bool grant) {
    const char *function = grant ? "grant_store" : "revoke_store";
    const char *name = text_argument(fcinfo, 0, function);
    const char *role = text_argument(fcinfo, 1, function);
    Oid reader = strcmp(role, "public") == 0 ? InvalidOid : get_role_oid(role, false);
    const char *folder = psprintf("%s/%s/" READERS, granted_root(name, function), name);
    if (grant)
        write_reader(folder, reader, function, name);
    else if (unlink(psprintf("%s/%u", folder, reader)) && errno != ENOENT)
        refuse_file(function, name);
    sync_folder(folder);
    PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(tuskml_grant_store);
Datum tuskml_grant_store(PG_FUNCTION_ARGS) {
    return change_readers(fcinfo, true);
}

PG_FUNCTION_INFO_V1(tuskml_revoke_store);
Datum tuskml_revoke_store(PG_FUNCTION_ARGS) {
    return change_readers(fcinfo, false);
}
