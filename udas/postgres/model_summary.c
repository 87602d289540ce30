/* What model_summary cannot say in SQL. */
#include "python.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

/* IEEE division: SQL's own refuses a standard error of 0 and a quotient out of range. */
PG_FUNCTION_INFO_V1(tuskml_divide);
Datum tuskml_divide(PG_FUNCTION_ARGS) {
    PG_RETURN_FLOAT8(PG_GETARG_FLOAT8(0) / PG_GETARG_FLOAT8(1));
}

PG_FUNCTION_INFO_V1(tuskml_refuse_stored);
Datum tuskml_refuse_stored(PG_FUNCTION_ARGS) {
    ereport(
        ERROR,
        (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
         errmsg("model_summary: the coefficients lie in the store, tuskml store export %s FILE "
                "writes them to a file",
                text_to_cstring(PG_GETARG_TEXT_PP(0)))));
    PG_RETURN_BOOL(false);
}

/* Asks _tuskml_p_values_of, which finds the settings in this library: by now it is loaded. */
PG_FUNCTION_INFO_V1(tuskml_p_values);
Datum tuskml_p_values(PG_FUNCTION_ARGS) {
    static python_function of = {
        .name = "_tuskml_p_values_of", .n_arguments = 2, .arguments = {FLOAT8ARRAYOID, FLOAT8OID}};
    NullableDatum given[] = {fcinfo->args[0], fcinfo->args[1]};
    return call_python(&of, fcinfo->flinfo->fn_oid, "model_summary", given);
}
