/* predict_class, predict_probas, and predict_proba of one class: results by the names of
 * classes. The names are kept with the model between rows (predict.c). */
#include "predict.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/float.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"

#include "../../scalars/metrics/shares.h"
#include "../../scalars/metrics/table.h"

#define A_CLASS 2 /* the third argument */

static bool has_name(const class_names *names, int place) {
    return place >= 0 && place < names->n && !names->null[place];
}

/* --- predict_class --- */

static Datum name_of(FunctionCallInfo fcinfo, const class_names *names, int place) {
    if (!place || !has_name(names, place - 1))
        PG_RETURN_NULL();
    return datumCopy(names->name[place - 1], false, -1);
}

static Datum class_of(FunctionCallInfo fcinfo, enum feature_form form) {
    class_names *names = NULL;
    int place = score_class(fcinfo, form, &names);
    return name_of(fcinfo, names, place);
}

static Datum class_with_offset(FunctionCallInfo fcinfo, enum feature_form form) {
    class_names *names = NULL;
    int place = score_class_with_offset(fcinfo, form, &names);
    return name_of(fcinfo, names, place);
}

/* --- predict_probas --- */

/* The number in its shortest text, as in to_jsonb. */
static JsonbValue json_number(double number) {
    char *text = float8out_internal(number);
    if (!isfinite(number))
        return (JsonbValue){.type = jbvString, .val.string = {(int)strlen(text), text}};
    Datum numeric = DirectFunctionCall3(numeric_in, CStringGetDatum(text),
                                        ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
    return (JsonbValue){.type = jbvNumeric, .val.numeric = DatumGetNumeric(numeric)};
}

static Datum shares_by_name(FunctionCallInfo fcinfo, enum feature_form form) {
    int n;
    class_names *names;
    const double *share = score_list(fcinfo, TUSK_PREDICT_PROBAS, form, &n, &names);
    if (!share || !names->n)
        PG_RETURN_NULL();
    JsonbParseState *state = NULL;
    pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
    for (int k = 0; k < n; k++) {
        if (!has_name(names, k))
            continue;
        const text *name = DatumGetTextPP(names->name[k]);
        JsonbValue key = {.type = jbvString,
                          .val.string = {(int)VARSIZE_ANY_EXHDR(name), VARDATA_ANY(name)}};
        JsonbValue value = json_number(share[k]);
        pushJsonbValue(&state, WJB_KEY, &key);
        pushJsonbValue(&state, WJB_VALUE, &value);
    }
    PG_RETURN_JSONB_P(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}

/* --- predict_proba of one class --- */

static const char *name_at(int64_t k, size_t *length, const void *of) {
    const class_names *names = of;
    if (!has_name(names, (int)k))
        return NULL;
    const text *name = DatumGetTextPP(names->name[k]);
    *length = VARSIZE_ANY_EXHDR(name);
    return VARDATA_ANY(name);
}

/* The index of a class by its name or its number; -1 for a class that the model never saw. */
static int place_of(class_names *names, const char *given) {
    if (names->asked && strcmp(names->asked, given) == 0)
        return names->place;
    int place = (int)tusk_class_place(given, strlen(given), names->n, name_at, names);
    if (names->asked)
        pfree(names->asked);
    names->asked = NULL; /* in case memory runs out */
    names->asked = MemoryContextStrdup(names->context, given);
    names->place = place;
    return place;
}

/* The requested class, as text. */
static char *asked_class(FunctionCallInfo fcinfo) {
    Oid type = get_fn_expr_argtype(fcinfo->flinfo, A_CLASS), output;
    if (type == TEXTOID)
        return TextDatumGetCString(PG_GETARG_DATUM(A_CLASS));
    if (type == BOOLOID)
        return pstrdup(PG_GETARG_BOOL(A_CLASS) ? "true" : "false");
    bool varlena;
    getTypeOutputInfo(type, &output, &varlena);
    return OidOutputFunctionCall(output, PG_GETARG_DATUM(A_CLASS));
}

static Datum share_of_class(FunctionCallInfo fcinfo, enum feature_form form) {
    int n;
    class_names *names;
    const double *share = score_list(fcinfo, TUSK_PREDICT_PROBAS, form, &n, &names);
    if (!share || !names->n || PG_ARGISNULL(A_CLASS))
        PG_RETURN_NULL();
    int place = place_of(names, asked_class(fcinfo));
    if (place < 0 || place >= n)
        PG_RETURN_NULL();
    PG_RETURN_FLOAT8(share[place]);
}

#define DEFINE_ANSWER(name, answer, form) \
    PG_FUNCTION_INFO_V1(name);            \
    Datum name(PG_FUNCTION_ARGS) {        \
        return answer(fcinfo, form);      \
    }

DEFINE_ANSWER(tuskml_predict_class_dense, class_of, DENSE)
DEFINE_ANSWER(tuskml_predict_class_sparse, class_of, SPARSE)
DEFINE_ANSWER(tuskml_predict_class_row, class_of, NAMED)
DEFINE_ANSWER(tuskml_predict_class_columns, class_of, COLUMNS)
DEFINE_ANSWER(tuskml_predict_class_with_offset_dense, class_with_offset, DENSE)
DEFINE_ANSWER(tuskml_predict_class_with_offset_sparse, class_with_offset, SPARSE)
DEFINE_ANSWER(tuskml_predict_class_with_offset_row, class_with_offset, NAMED)
DEFINE_ANSWER(tuskml_predict_probas_dense, shares_by_name, DENSE)
DEFINE_ANSWER(tuskml_predict_probas_sparse, shares_by_name, SPARSE)
DEFINE_ANSWER(tuskml_predict_probas_row, shares_by_name, NAMED)
DEFINE_ANSWER(tuskml_predict_probas_columns, shares_by_name, COLUMNS)
DEFINE_ANSWER(tuskml_predict_proba_of_dense, share_of_class, DENSE)
DEFINE_ANSWER(tuskml_predict_proba_of_sparse, share_of_class, SPARSE)
DEFINE_ANSWER(tuskml_predict_proba_of_row, share_of_class, NAMED)
DEFINE_ANSWER(tuskml_predict_proba_of_columns, share_of_class, COLUMNS_OF_CLASS)
