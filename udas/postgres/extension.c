/* PostgreSQL locks the tables of a statement but not its functions, so DROP EXTENSION could
 * remove the trainer between the last row and the training. So a training locks its extension
 * in the weakest mode, as a statement locks its tables.
 */
#include "extension.h"

#include "catalog/dependency.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "parser/parse_func.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

void hold_extension(Oid function, const char *name) {
    Oid extension = getExtensionOfObject(ProcedureRelationId, function);
    if (OidIsValid(extension))
        LockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock);
    if (!SearchSysCacheExists1(PROCOID, ObjectIdGetDatum(function)))
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_FUNCTION),
                 errmsg("%s: the extension tuskml_train was dropped while the statement was "
                        "planned",
                        name)));
}

Oid function_of_ours(const char *name) {
    List *names = list_make2(makeString(pstrdup("tuskml")), makeString(pstrdup(name)));
    return LookupFuncName(names, -1, NULL, false);
}

Oid model_type(void) {
    Oid *arguments;
    int n;
    get_func_signature(function_of_ours("_tuskml_predict_columns"), &arguments, &n);
    return arguments[0];
}
