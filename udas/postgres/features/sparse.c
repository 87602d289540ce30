/* sparse(indices, values): combines two arrays into one value, converted to the types of its
 * fields. */
#include "features.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"

#include "../../rowblock/rowblock.h"

/* --- the composite value --- */

static TupleDesc result_type(FunctionCallInfo fcinfo) {
    FmgrInfo *site = fcinfo->flinfo;
    if (site->fn_extra)
        return site->fn_extra;
    MemoryContext before = MemoryContextSwitchTo(site->fn_mcxt);
    TupleDesc type;
    if (get_call_result_type(fcinfo, NULL, &type) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "sparse: the result is no composite type");
    site->fn_extra = BlessTupleDesc(type);
    MemoryContextSwitchTo(before);
    return site->fn_extra;
}

Datum make_sparse(FunctionCallInfo fcinfo, ArrayType *indices, ArrayType *values) {
    Datum fields[] = {PointerGetDatum(indices), PointerGetDatum(values)};
    bool nulls[] = {!indices, !values};
    return HeapTupleGetDatum(heap_form_tuple(result_type(fcinfo), fields, nulls));
}

/* --- conversions --- */

/* The items of an array; some may be NULL. */
typedef struct items {
    Oid type;
    Datum *data;
    bool *nulls;
    int n;
} items;

static items read_items(ArrayType *a) {
    items list = {.type = ARR_ELEMTYPE(a)};
    int16 size;
    bool by_value;
    char align;
    get_typlenbyvalalign(list.type, &size, &by_value, &align);
    deconstruct_array(a, list.type, size, by_value, align, &list.data, &list.nulls, &list.n);
    return list;
}

static ArrayType *make_array(const items *list, Oid type, int size, char align) {
    int lower = 1, n = list->n;
    if (!n)
        return construct_empty_array(type);
    return construct_md_array(list->data, list->nulls, 1, &n, &lower, type, size, FLOAT8PASSBYVAL,
                              align);
}

static void refuse_dimensions(const ArrayType *a, const char *argument) {
    if (ARR_NDIM(a) > 1)
        ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
                        errmsg("sparse: %s has %d dimensions, expected a list of numbers",
                               argument, ARR_NDIM(a))));
}

static void refuse_id(int place, const char *given) {
    ereport(ERROR,
            (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
             errmsg("sparse: indices[%d] is %s, expected a whole feature id from " TUSK_ID_RANGE,
                    place, given)));
}

/* A numeric may have more digits than a double: it is rounded to 64 bits, and compared. */
static bool whole_numeric(Datum item, int64 *id) {
    if (numeric_is_nan(DatumGetNumeric(item)) || fabs(read_number(item, NUMERICOID)) >= 0x1p63)
        return false;
    Datum whole = DirectFunctionCall2(numeric_trunc, item, Int32GetDatum(0));
    *id = DatumGetInt64(DirectFunctionCall1(numeric_int8, whole));
    return DatumGetBool(DirectFunctionCall2(numeric_eq, whole, item));
}

/* Reads a number of any type as an id, without rounding. */
static int64 id_of(Datum item, Oid type, int place) {
    int64 id;
    if (type == NUMERICOID) {
        if (whole_numeric(item, &id))
            return id;
    } else {
        double number = read_number(item, type);
        if (number >= -0x1p63 && number < 0x1p63 && number == (double)(int64)number)
            return (int64)number;
    }
    Oid output;
    bool varlena;
    getTypeOutputInfo(type, &output, &varlena);
    refuse_id(place, OidOutputFunctionCall(output, item));
    return 0;
}

static ArrayType *to_ids(ArrayType *a) {
    Oid type = number_type(ARR_ELEMTYPE(a));
    refuse_dimensions(a, "indices");
    if (type == INT8OID)
        return a;
    if (!is_number_type(type) || type == BOOLOID)
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("sparse: indices is %s[], expected an array of whole numbers",
                               format_type_be(type))));
    items list = read_items(a);
    for (int i = 0; i < list.n; i++)
        list.data[i] = Int64GetDatum(list.nulls[i] ? 0 : id_of(list.data[i], type, i + 1));
    return make_array(&list, INT8OID, sizeof(int64), TYPALIGN_DOUBLE);
}

static ArrayType *to_values(ArrayType *a) {
    Oid type = number_type(ARR_ELEMTYPE(a));
    refuse_dimensions(a, "values");
    if (type == FLOAT4OID || type == FLOAT8OID)
        return a;
    items list = read_items(a);
    for (int i = 0; i < list.n; i++)
        list.data[i] = Float8GetDatum(list.nulls[i] ? 0 : read_number(list.data[i], type));
    return make_array(&list, FLOAT8OID, sizeof(float8), TYPALIGN_DOUBLE);
}

PG_FUNCTION_INFO_V1(tuskml_sparse);
Datum tuskml_sparse(PG_FUNCTION_ARGS) {
    ArrayType *indices = PG_ARGISNULL(0) ? NULL : to_ids(PG_GETARG_ARRAYTYPE_P(0));
    ArrayType *values = PG_ARGISNULL(1) ? NULL : to_values(PG_GETARG_ARRAYTYPE_P(1));
    return make_sparse(fcinfo, indices, values);
}
