/* Where the stores lie. */
#include "door.h"

#include "miscadmin.h"

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
