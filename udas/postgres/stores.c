/* The location of the stores, and their open files in the backend. */
#include "stores.h"

#include "miscadmin.h"

#include "extension.h"

const char *backend_store_root(void) {
    static char path[MAXPGPATH];
    const char *given =
        tuskml_store_root && tuskml_store_root[0] ? tuskml_store_root : "tuskml/stores";
    bool absolute = is_absolute_path(given);
    int length =
        snprintf(path, sizeof path, "%s%s%s", absolute ? "" : DataDir, absolute ? "" : "/", given);
    if (length >= (int)sizeof path)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("tuskml.store_root has %zu bytes, a path has at most %d",
                               strlen(given), MAXPGPATH - 1)));
    return path;
}

static const char *readable(const tusk_stores *stores, const char *reference, size_t length,
                            sealed_error *e) {
    (void)stores;
    return readable_root(reference, length, e);
}

/* Files of stores may use a quarter of the memory that rows may use. */
tusk_stores backend_stores(void) {
    static sealed_cache *cache;
    if (!cache)
        cache = sealed_cache_new();
    if (!cache)
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("tuskml: out of memory")));
    return (tusk_stores){.cache = cache,
                         .root = backend_store_root(),
                         .memory = Min(backend_budget() / 4, SEALED_MEMORY),
                         .readable = readable};
}
