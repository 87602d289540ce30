/* Error sentences for calls that match no other function of a name: overloads for arguments of
 * any type.
 */
#include "refusals.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "nodes/nodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#define FEATURES                                                                                 \
    "the features a row with names, an array of numbers such as ARRAY[a, b] or sparse(indices, " \
    "values)"
#define NO_TEXT "; text becomes features in a row with names, or by hash_features"

static char *types_from(FunctionCallInfo fcinfo, int first) {
    StringInfoData s;
    initStringInfo(&s);
    for (int i = first; i < PG_NARGS(); i++) {
        Oid type = get_fn_expr_argtype(fcinfo->flinfo, i);
        appendStringInfo(&s, "%s%s", i > first ? ", " : "",
                         !OidIsValid(type) || type == UNKNOWNOID ? "text" : format_type_be(type));
    }
    return s.data;
}

/* A skipped row has no features, so their type is not rejected yet. */
Datum refuse_features(FunctionCallInfo fcinfo) {
    Aggref *aggregate = AggGetAggref(fcinfo);
    const char *name = aggregate ? get_func_name(aggregate->aggfnoid) : NULL;
    if (PG_ARGISNULL(2) || PG_ARGISNULL(3)) {
        if (PG_ARGISNULL(0))
            PG_RETURN_NULL();
        PG_RETURN_POINTER(PG_GETARG_POINTER(0));
    }
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("%s got (%s), expected (task, label, features [, options [, weight [, "
                           "offset]]]): the label a number, a boolean or text, " FEATURES
                           ", the options JSON as text, weight and offset numbers" NO_TEXT,
                           name ? name : "train_model", types_from(fcinfo, 1))));
    PG_RETURN_NULL();
}

void refuse_prediction(FunctionCallInfo fcinfo, const char *name) {
    bool named = get_fn_expr_argtype(fcinfo->flinfo, 0) == TEXTOID;
    ereport(ERROR,
            (errcode(ERRCODE_DATATYPE_MISMATCH),
             errmsg("%s got (%s), expected %s: " FEATURES NO_TEXT, name, types_from(fcinfo, 0),
                    named ? "(name, features) or (name, group as text, features)"
                          : "(model, features)")));
}

PG_FUNCTION_INFO_V1(tuskml_refuse_prediction);
Datum tuskml_refuse_prediction(PG_FUNCTION_ARGS) {
    refuse_prediction(fcinfo, get_func_name(fcinfo->flinfo->fn_oid));
    PG_RETURN_NULL();
}

/* The group that register_model uses if none was given: the time when its statement began,
 * after a character that no group contains. A call site belongs to one statement. */
PG_FUNCTION_INFO_V1(tuskml_no_group);
Datum tuskml_no_group(PG_FUNCTION_ARGS) {
    FmgrInfo *site = fcinfo->flinfo;
    if (!site->fn_extra) {
        TimestampTz *began = MemoryContextAlloc(site->fn_mcxt, sizeof *began);
        *began = GetCurrentTimestamp();
        site->fn_extra = began;
    }
    char *text = psprintf("\001%s", timestamptz_to_str(*(const TimestampTz *)site->fn_extra));
    PG_RETURN_TEXT_P(cstring_to_text(text));
}
