#include "emit.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "../../scalars/models/payload.h"

/* A field of a tuskml_model row while the row is made; NULL until it is set. */
typedef struct field {
    Datum value;
    bool null;
} field;

static void put_TEXT(field *f, tusk_strings s, int64 i) {
    if (s.code[i] >= 0)
        *f = (field){CStringGetTextDatum(s.pool[s.code[i]]), false};
}

static void put_TEXTS(field *f, tusk_names s, int64 i) {
    if (s.code[i] < 0)
        return;
    int64 begin = s.begin[s.code[i]];
    int n = (int)(s.begin[s.code[i] + 1] - begin);
    Datum *items = palloc(n * sizeof *items);
    for (int k = 0; k < n; k++)
        items[k] = CStringGetTextDatum(s.pool[begin + k]);
    *f = (field){PointerGetDatum(construct_array(items, n, TEXTOID, -1, false, TYPALIGN_INT)),
                 false};
    for (int k = 0; k < n; k++)
        pfree(DatumGetPointer(items[k]));
    pfree(items);
}

static void put_NUMBER(field *f, const double *x, int64 i) {
    if (!isnan(x[i]))
        *f = (field){Float8GetDatum(x[i]), false};
}

static void put_COUNT(field *f, const int64_t *x, int64 i) {
    *f = (field){Int64GetDatum(x[i]), false};
}

static void put_TRUTH(field *f, const uint8 *x, int64 i) {
    *f = (field){BoolGetDatum(x[i]), false};
}

static int count_nan(const double *x, int64 n) {
    int found = 0;
    for (int64 i = 0; i < n; i++)
        found += isnan(x[i]) != 0;
    return found;
}

static ArrayType *array_without_null(const double *x, int64 n) {
    Size size = ARR_OVERHEAD_NONULLS(1) + (Size)n * sizeof(double);
    ArrayType *a = palloc0(size);
    SET_VARSIZE(a, size);
    a->ndim = 1;
    a->elemtype = FLOAT8OID;
    ARR_DIMS(a)[0] = (int)n;
    ARR_LBOUND(a)[0] = 1;
    memcpy(ARR_DATA_PTR(a), x, (Size)n * sizeof(double));
    return a;
}

static ArrayType *array_with_null(const double *x, int64 n) {
    Datum *items = palloc(n * sizeof *items);
    bool *nulls = palloc(n * sizeof *nulls);
    int length = (int)n, lower = 1;
    for (int64 i = 0; i < n; i++) {
        nulls[i] = isnan(x[i]);
        items[i] = Float8GetDatum(x[i]);
    }
    ArrayType *a = construct_md_array(items, nulls, 1, &length, &lower, FLOAT8OID, sizeof(double),
                                      FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
    pfree(items);
    pfree(nulls);
    return a;
}

/* A value has at most a gigabyte, and the row around the list takes some of it. */
#define MOST_ITEMS ((int64)((MaxAllocSize - (1 << 20)) / sizeof(double)))

static void refuse_coefficients(int64 n) {
    ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY),
                    errmsg("train_model: a list of " INT64_FORMAT " coefficients is more "
                           "memory than the 1 GB that a value may have: expected smaller "
                           "ids, or option 'store', which keeps those that occur",
                           n)));
}

static void put_NUMBERS(field *f, tusk_lists l, int64 i) {
    const double *x = l.values + l.offsets[i];
    int64 n = l.offsets[i + 1] - l.offsets[i];
    if (n > MOST_ITEMS)
        refuse_coefficients(n);
    if (n)
        *f = (field){
            PointerGetDatum(count_nan(x, n) ? array_with_null(x, n) : array_without_null(x, n)),
            false};
}

Datum payload_datum(const tusk_model_fields *fields, char *sentence) {
    tusk_payload_parts parts;
    if (!tusk_payload_of(fields, &parts, sentence))
        return (Datum)0;
    Size size = VARHDRSZ + tusk_payload_size(&parts);
    bool fits = AllocSizeIsValid(size);
    bytea *bytes = fits ? palloc_extended(size, MCXT_ALLOC_NO_OOM) : NULL;
    if (!bytes) {
        tusk_payload_free(&parts);
        if (!fits)
            refuse_coefficients((int64)fields->coef.n);
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY),
                        errmsg("train_model: out of memory for a model")));
    }
    SET_VARSIZE(bytes, size);
    tusk_payload_write(&parts, VARDATA(bytes));
    tusk_payload_free(&parts);
    return PointerGetDatum(bytes);
}

/* Leaves NULL if no prediction could use the model; a prediction then says why. Returns whether
 * the payload has the coefficients, so that their field is NULL. */
static bool put_payload(field *f, const tusk_models *m, int64 i) {
    tusk_model_fields fields = tusk_fields_of(m, i);
    char sentence[TUSK_SENTENCE];
    Datum payload = payload_datum(&fields, sentence);
    if (!payload)
        return false;
    *f = (field){payload, false};
    bytea *bytes = (bytea *)DatumGetPointer(payload);
    return tusk_keeps_weights((tusk_text){VARDATA(bytes), VARSIZE(bytes) - VARHDRSZ});
}

#define PUT_TEXT(NAME, name) put_TEXT(f + M_##NAME, m->name, i);
#define PUT_TEXTS(NAME, name) put_TEXTS(f + M_##NAME, m->name, i);
#define PUT_NUMBER(NAME, name) put_NUMBER(f + M_##NAME, m->name, i);
#define PUT_NUMBERS(NAME, name)              \
    if (!(M_##NAME == M_COEF && in_payload)) \
        put_NUMBERS(f + M_##NAME, m->name, i);
#define PUT_COUNT(NAME, name) put_COUNT(f + M_##NAME, m->name, i);
#define PUT_TRUTH(NAME, name) put_TRUTH(f + M_##NAME, m->name, i);
#define PUT_PAYLOAD(NAME, name)
#define PUT(NAME, name, KIND, meaning) PUT_##KIND(NAME, name)

/* The position of a field in the type. An upgrade adds fields at the end. -1: the type has not
 * been upgraded yet. */
static int place_of(TupleDesc type, const char *name) {
    for (int k = 0; k < type->natts; k++) {
        Form_pg_attribute attribute = TupleDescAttr(type, k);
        if (!attribute->attisdropped && strcmp(NameStr(attribute->attname), name) == 0)
            return k;
    }
    return -1;
}

Datum model_datum(TupleDesc type, const tusk_models *m, int64 i) {
    field f[MODEL_FIELDS];
    for (int k = 0; k < MODEL_FIELDS; k++)
        f[k] = (field){(Datum)0, true};
    bool in_payload = put_payload(f + M_PAYLOAD, m, i);
    TUSK_MODEL_FIELDS(PUT)
    Datum *values = palloc0(type->natts * sizeof *values);
    bool *nulls = palloc(type->natts * sizeof *nulls);
    memset(nulls, true, type->natts * sizeof *nulls);
    for (int k = 0; k < MODEL_FIELDS; k++) {
        int place = place_of(type, MODEL_FIELD[k].name);
        if (place < 0)
            continue;
        values[place] = f[k].value;
        nulls[place] = f[k].null;
    }
    HeapTuple tuple = heap_form_tuple(type, values, nulls);
    for (int k = 0; k < type->natts; k++)
        if (!nulls[k] && !TupleDescAttr(type, k)->attbyval)
            pfree(DatumGetPointer(values[k]));
    pfree(values);
    pfree(nulls);
    return HeapTupleGetDatum(tuple);
}
