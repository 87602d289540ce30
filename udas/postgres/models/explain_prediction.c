/* explain_prediction: the contribution of each feature of a row to the margin, as numbers that
   SQL names. predict_interval: the numbers of an interval. */
#include "predict.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "../../scalars/models/interval.h"

static Datum list_datum(const double *numbers, uint64 n) {
    Datum *items = palloc(n * sizeof *items);
    for (uint64 k = 0; k < n; k++)
        items[k] = Float8GetDatum(numbers[k]);
    return PointerGetDatum(construct_array(items, (int)n, FLOAT8OID, sizeof(double),
                                           FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* Whether a type is one of the extension's for sparse features, which are in the schema of its
 * models' type; other schemas may have types of such names. */
static bool is_sparse_type(Oid type, Oid model) {
    HeapTuple given = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
    HeapTuple ours = SearchSysCache1(TYPEOID, ObjectIdGetDatum(model));
    bool sparse = false;
    if (HeapTupleIsValid(given) && HeapTupleIsValid(ours)) {
        Form_pg_type row = (Form_pg_type)GETSTRUCT(given);
        const char *name = NameStr(row->typname);
        sparse =
            row->typnamespace == ((Form_pg_type)GETSTRUCT(ours))->typnamespace &&
            (strcmp(name, "tuskml_sparse_real") == 0 || strcmp(name, "tuskml_sparse_double") == 0);
    }
    if (HeapTupleIsValid(given))
        ReleaseSysCache(given);
    if (HeapTupleIsValid(ours))
        ReleaseSysCache(ours);
    return sparse;
}

enum feature_form form_of(Oid type, Oid model) {
    return OidIsValid(get_element_type(type)) ? DENSE
           : is_sparse_type(type, model)      ? SPARSE
                                              : NAMED;
}

PG_FUNCTION_INFO_V1(tuskml_explain_prediction);
Datum tuskml_explain_prediction(PG_FUNCTION_ARGS) {
    Oid model = get_fn_expr_argtype(fcinfo->flinfo, 0);
    Oid type = get_fn_expr_argtype(fcinfo->flinfo, 1);
    int n;
    class_names *names;
    const double *found =
        score_list(fcinfo, TUSK_EXPLAIN_PREDICTION, form_of(type, model), &n, &names);
    if (!found)
        PG_RETURN_NULL();
    return list_datum(found, (uint64)n);
}

PG_FUNCTION_INFO_V1(tuskml_predict_interval);
Datum tuskml_predict_interval(PG_FUNCTION_ARGS) {
    Oid model = get_fn_expr_argtype(fcinfo->flinfo, 0);
    Oid type = get_fn_expr_argtype(fcinfo->flinfo, 1);
    int n;
    class_names *names;
    TupleDesc result;
    const double *found =
        score_list(fcinfo, TUSK_PREDICT_INTERVAL, form_of(type, model), &n, &names);
    if (!found)
        PG_RETURN_NULL();
    Datum values[TUSK_INTERVAL_FIELDS];
    bool nulls[TUSK_INTERVAL_FIELDS];
    for (int k = 0; k < TUSK_INTERVAL_FIELDS; k++) {
        values[k] = Float8GetDatum(found[k]);
        nulls[k] = isnan(found[k]);
    }
    if (get_call_result_type(fcinfo, NULL, &result) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "predict_interval: the result is no row");
    return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(result), values, nulls));
}
