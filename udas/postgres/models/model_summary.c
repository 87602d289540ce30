/* The parts of model_summary that SQL cannot express. */
#include "../backend.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "../../scalars/models/interval.h"
#include "../../scalars/models/note.h"
#include "../../scalars/ratio.h"
#include "../../scalars/student.h"

/* IEEE division. SQL's own division rejects a standard error of 0 and a quotient out of range. */
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

PG_FUNCTION_INFO_V1(tuskml_p_value);
Datum tuskml_p_value(PG_FUNCTION_ARGS) {
    double p = tusk_two_sided_p(PG_GETARG_FLOAT8(0), PG_GETARG_FLOAT8(1));
    if (isnan(p))
        PG_RETURN_NULL();
    PG_RETURN_FLOAT8(p);
}

/* Number of standard errors to the end of a confidence interval. */
PG_FUNCTION_INFO_V1(tuskml_interval);
Datum tuskml_interval(PG_FUNCTION_ARGS) {
    PG_RETURN_FLOAT8(tusk_t_of_interval(PG_GETARG_FLOAT8(0)));
}

/* estimate + errors * std_err. SQL's own operators reject numbers out of range. */
PG_FUNCTION_INFO_V1(tuskml_bound);
Datum tuskml_bound(PG_FUNCTION_ARGS) {
    double bound = PG_GETARG_FLOAT8(0) + PG_GETARG_FLOAT8(1) * PG_GETARG_FLOAT8(2);
    if (isnan(bound))
        PG_RETURN_NULL();
    PG_RETURN_FLOAT8(bound);
}

static tusk_text text_of(FunctionCallInfo fcinfo, int argument) {
    if (PG_ARGISNULL(argument))
        return (tusk_text){NULL, 0};
    text *t = PG_GETARG_TEXT_PP(argument);
    return (tusk_text){VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t)};
}

enum note_argument { N_TASK, N_OPTIONS, N_STATUS, N_STORE, N_ERRORS, N_FEATURE };

PG_FUNCTION_INFO_V1(tuskml_note);
Datum tuskml_note(PG_FUNCTION_ARGS) {
    tusk_noted noted = {.task = text_of(fcinfo, N_TASK),
                        .options = text_of(fcinfo, N_OPTIONS),
                        .status = text_of(fcinfo, N_STATUS),
                        .store = text_of(fcinfo, N_STORE)};
    char note[TUSK_NOTE] = TUSK_NOTE_UNDETERMINED;
    bool first = !PG_ARGISNULL(N_FEATURE) && PG_GETARG_INT64(N_FEATURE) == 0;
    if (first && tusk_absorbed_in(noted.options).n)
        tusk_note_absorbed(noted.options, note);
    else if (PG_ARGISNULL(N_ERRORS) || PG_GETARG_INT64(N_ERRORS) == 0)
        tusk_note_none(&noted, note);
    else if (first && !tusk_has_intercept(noted.options))
        strcpy(note, TUSK_NOTE_INTERCEPT);
    PG_RETURN_TEXT_P(cstring_to_text(note));
}

PG_FUNCTION_INFO_V1(tuskml_is_absorbed);
Datum tuskml_is_absorbed(PG_FUNCTION_ARGS) {
    PG_RETURN_BOOL(tusk_is_absorbed(tusk_absorbed_in(text_of(fcinfo, 0)), PG_GETARG_INT64(1)));
}

PG_FUNCTION_INFO_V1(tuskml_ratio);
Datum tuskml_ratio(PG_FUNCTION_ARGS) {
    double ratio = tusk_ratio(text_of(fcinfo, 0), PG_GETARG_FLOAT8(1));
    if (isnan(ratio))
        PG_RETURN_NULL();
    PG_RETURN_FLOAT8(ratio);
}

/* The covariance of coefficients, row by row, by the rows of its triangle. */
PG_FUNCTION_INFO_V1(tuskml_covariances);
Datum tuskml_covariances(PG_FUNCTION_ARGS) {
    ArrayType *given = PG_GETARG_ARRAYTYPE_P(0);
    if (ARR_HASNULL(given) && array_contains_nulls(given))
        PG_RETURN_NULL();
    uint64 terms = tusk_terms_of((uint64)ArrayGetNItems(ARR_NDIM(given), ARR_DIMS(given)));
    double *items = palloc(Max(terms * terms, 1) * sizeof *items);
    for (uint64 i = 0; i < terms; i++)
        tusk_covariances_of((const tusk_weight *)ARR_DATA_PTR(given), terms, i, items + i * terms);
    Datum *listed = palloc(Max(terms * terms, 1) * sizeof *listed);
    for (uint64 k = 0; k < terms * terms; k++)
        listed[k] = Float8GetDatum(items[k]);
    PG_RETURN_ARRAYTYPE_P(construct_array(listed, (int)(terms * terms), FLOAT8OID, sizeof(double),
                                          FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}
