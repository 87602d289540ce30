#include "features.h"

#include <ctype.h>
#include <float.h>
#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

bool is_number_type(Oid type) {
    switch (type) {
    case BOOLOID:
    case INT2OID:
    case INT4OID:
    case INT8OID:
    case FLOAT4OID:
    case FLOAT8OID:
    case NUMERICOID:
        return true;
    default:
        return false;
    }
}

double read_number(Datum datum, Oid type) {
    switch (type) {
    case BOOLOID:
        return DatumGetBool(datum) ? 1 : 0;
    case INT2OID:
        return DatumGetInt16(datum);
    case INT4OID:
        return DatumGetInt32(datum);
    case INT8OID:
        return (double)DatumGetInt64(datum);
    case FLOAT4OID:
        return (double)DatumGetFloat4(datum);
    case NUMERICOID:
        return DatumGetFloat8(DirectFunctionCall1(numeric_float8, datum));
    default:
        return DatumGetFloat8(datum);
    }
}

#define EXACT "9007199254740992" /* 2^53, to which the next integer is rounded */

/* Whether the text of a numeric has more digits than a double keeps. */
static bool loses_digits(const char *text, double x) {
    const char *point = strchr(text, '.'), *end = text + strlen(text);
    while (point && end > point && (end[-1] == '0' || end[-1] == '.'))
        end--;
    if (!point || end <= point)
        return isfinite(x) && fabs(x) >= 0x1p53 &&
               (fabs(x) > 0x1p53 || strncmp(text + (*text == '-'), EXACT, strlen(EXACT)) != 0);
    int digits = 0;
    for (; text < end; text++)
        digits += isdigit((unsigned char)*text) && (digits || *text != '0');
    return digits > DBL_DIG;
}

double read_number_noted(Datum datum, Oid type, bool *rounded) {
    if (type == INT8OID) {
        int64 whole = DatumGetInt64(datum);
        double x = (double)whole;
        *rounded |= fabs(x) >= 0x1p53 && (__int128)x != whole;
        return x;
    }
    if (type != NUMERICOID)
        return read_number(datum, type);
    char *text = DatumGetCString(DirectFunctionCall1(numeric_out, datum));
    double x = DatumGetFloat8(DirectFunctionCall1(float8in, CStringGetDatum(text)));
    *rounded |= loses_digits(text, x);
    pfree(text);
    return x;
}

static double *room_for(number_buffer *b, int64 n) {
    if (n > b->room) {
        int64 room = Max(n, 2 * b->room);
        if (b->items)
            pfree(b->items);
        b->items = NULL;
        b->room = 0;
        b->items = MemoryContextAllocHuge(b->context, (Size)room * sizeof(double));
        b->room = room;
    }
    return b->items;
}

Oid number_type(Oid type) {
    return is_number_type(type) || !OidIsValid(type) ? type : getBaseType(type);
}

static void refuse_type(ArrayType *a, const char *function, const char *argument) {
    ereport(ERROR,
            (errcode(ERRCODE_DATATYPE_MISMATCH),
             errmsg("%s: %s is %s[], expected an array of real, double precision, integer or "
                    "numeric",
                    function, argument, format_type_be(ARR_ELEMTYPE(a)))));
}

static void refuse_dimensions(ArrayType *a, const char *function, const char *argument) {
    ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
                    errmsg("%s: %s has %d dimensions, expected a list of numbers", function,
                           argument, ARR_NDIM(a))));
}

/* In an array without NULLs, fixed-size numbers are contiguous. */
static const double *convert(ArrayType *a, Oid element, int64 n, number_buffer *buffer,
                             bool *rounded) {
    double *out = room_for(buffer, n);
    const void *items = ARR_DATA_PTR(a);
    switch (element) {
    case INT2OID:
        for (int64 i = 0; i < n; i++)
            out[i] = ((const int16 *)items)[i];
        break;
    case INT4OID:
        for (int64 i = 0; i < n; i++)
            out[i] = ((const int32 *)items)[i];
        break;
    case INT8OID:
        for (int64 i = 0; i < n; i++)
            out[i] = (double)((const int64 *)items)[i];
        break;
    default: { /* numeric */
        ArrayIterator each = array_create_iterator(a, 0, NULL);
        Datum item;
        bool null;
        for (int64 i = 0; array_iterate(each, &item, &null); i++)
            out[i] = read_number_noted(item, NUMERICOID, rounded);
        array_free_iterator(each);
    }
    }
    return out;
}

feature_row read_dense(Datum array, number_buffer *buffer, const char *function,
                       const char *argument) {
    ArrayType *a = DatumGetArrayTypeP(array);
    Oid element = number_type(ARR_ELEMTYPE(a));
    if (!is_number_type(element) || element == BOOLOID)
        refuse_type(a, function, argument);
    if (ARR_NDIM(a) > 1)
        refuse_dimensions(a, function, argument);
    feature_row row = {.null = ARR_HASNULL(a) && array_contains_nulls(a),
                       .f64 = element != FLOAT4OID,
                       .n = ARR_NDIM(a) ? ARR_DIMS(a)[0] : 0};
    if (row.null)
        return row;
    row.values = element == FLOAT4OID || element == FLOAT8OID
                     ? (const void *)ARR_DATA_PTR(a)
                     : convert(a, element, row.n, buffer, &row.rounded);
    return row;
}

static bool has_nan(const feature_row *row) {
    for (int64 i = 0; i < row->n; i++)
        if (isnan(row->f64 ? ((const double *)row->values)[i] : ((const float *)row->values)[i]))
            return true;
    return false;
}

feature_row read_gaps(Datum array, bool nan_is_gap, number_buffer *buffer, const char *function) {
    feature_row row = read_dense(array, buffer, function, "features");
    if (!row.null && !(nan_is_gap && has_nan(&row)))
        return row;
    ArrayType *a = DatumGetArrayTypeP(array);
    Oid element = number_type(ARR_ELEMTYPE(a));
    double *wide = room_for(buffer, row.n);
    ArrayIterator each = array_create_iterator(a, 0, NULL);
    Datum item;
    bool null;
    for (int64 i = 0; array_iterate(each, &item, &null); i++) {
        double value = null ? NAN : read_number_noted(item, element, &row.rounded);
        if (!null && !isfinite(value) && !(nan_is_gap && isnan(value)) && !row.not_finite)
            row.not_finite = i + 1;
        if (row.f64)
            wide[i] = value;
        else
            ((float *)wide)[i] = (float)value;
    }
    array_free_iterator(each);
    row.null = false;
    row.gaps = true;
    row.values = wide;
    return row;
}

feature_row read_sparse(Datum composite, number_buffer *buffer, const char *function) {
    HeapTupleHeader tuple = DatumGetHeapTupleHeader(composite);
    bool no_ids, no_values;
    Datum ids = GetAttributeByNum(tuple, 1, &no_ids);
    Datum values = GetAttributeByNum(tuple, 2, &no_values);
    if (no_ids || no_values)
        return (feature_row){.null = true, .sparse = true};
    ArrayType *a = DatumGetArrayTypeP(ids);
    if (ARR_NDIM(a) > 1)
        refuse_dimensions(a, function, "indices");
    feature_row row = read_dense(values, buffer, function, "values");
    row.sparse = true;
    row.null |= ARR_HASNULL(a) && array_contains_nulls(a);
    row.n_index = ARR_NDIM(a) ? ARR_DIMS(a)[0] : 0;
    row.index = (const int64 *)ARR_DATA_PTR(a);
    return row;
}

static void remark_items(ArrayType *a, tusk_remarks *to) {
    ArrayIterator each = array_create_iterator(a, 0, NULL);
    Datum item;
    bool null;
    for (int64 i = 0; array_iterate(each, &item, &null); i++)
        if (null)
            tusk_remark_gap(to, i, NULL);
    array_free_iterator(each);
}

static void remark_sparse(Datum composite, tusk_remarks *to) {
    HeapTupleHeader tuple = DatumGetHeapTupleHeader(composite);
    for (AttrNumber i = 1; i <= 2; i++) {
        bool null;
        Datum list = GetAttributeByNum(tuple, i, &null);
        if (null || array_contains_nulls(DatumGetArrayTypeP(list)))
            tusk_remark_gap(to, i == 1 ? TUSK_OF_INDICES : TUSK_OF_VALUES, NULL);
    }
}

void remark_gaps(Datum features, bool sparse, tusk_remarks *to) {
    if (sparse)
        remark_sparse(features, to);
    else
        remark_items(DatumGetArrayTypeP(features), to);
}
