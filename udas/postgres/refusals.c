/* Sentences on calls that no other function of a name takes: overloads for arguments of any type.
 */
#include "door.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "nodes/nodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#define FEATURES "the features an array of numbers such as ARRAY[a, b] or sparse(indices, values)"
#define NO_TEXT "; text becomes features by hash_features or by columns such as (a = 'x')::int"

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

/* A row that is skipped has no features, so that nothing is wrong with their type yet. */
PG_FUNCTION_INFO_V1(tuskml_refuse_features);
Datum tuskml_refuse_features(PG_FUNCTION_ARGS) {
    Aggref *aggregate = AggGetAggref(fcinfo);
    const char *name = aggregate ? get_func_name(aggregate->aggfnoid) : NULL;
    if (PG_ARGISNULL(2) || PG_ARGISNULL(3))
        PG_RETURN_NULL();
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("%s got (%s), expected (task, label, features [, options]): the label "
                           "a number or a boolean, " FEATURES ", the options JSON as text" NO_TEXT,
                           name ? name : "train_model", types_from(fcinfo, 1))));
    PG_RETURN_NULL();
}

static void refuse_prediction(FunctionCallInfo fcinfo) {
    bool named = get_fn_expr_argtype(fcinfo->flinfo, 0) == TEXTOID;
    char *name = get_func_name(fcinfo->flinfo->fn_oid);
    ereport(ERROR,
            (errcode(ERRCODE_DATATYPE_MISMATCH),
             errmsg("%s got (%s), expected %s: " FEATURES NO_TEXT, name, types_from(fcinfo, 0),
                    named ? "(name, features) or (name, group as text, features)"
                          : "(model, features)")));
}

PG_FUNCTION_INFO_V1(tuskml_refuse_prediction);
Datum tuskml_refuse_prediction(PG_FUNCTION_ARGS) {
    refuse_prediction(fcinfo);
    PG_RETURN_NULL();
}

/* What register_model takes for a group that was not given: when its statement began, behind a
 * character that no group has. A call site is a statement's own. */
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
