#include "trainer.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

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

static void put_NUMBERS(field *f, tusk_lists l, int64 i) {
    const double *x = l.values + l.offsets[i];
    int64 n = l.offsets[i + 1] - l.offsets[i];
    if (n)
        *f = (field){
            PointerGetDatum(count_nan(x, n) ? array_with_null(x, n) : array_without_null(x, n)),
            false};
}

/* --- size of a model --- */

/* Size of the rest of a row: its head, and numbers. */
#define THE_REST ((uint64)4096)
/* The longest text of a number with its separator. */
#define NUMBER_TEXT 25

/* A model's bytes and characters: its row is one value, and pg_dump, COPY and casts convert it
 * to one text, in which bytes are pairs of digits. COPY, as pg_dump uses it, writes an extra
 * backslash for each, and one before an end of line. */
typedef struct model_size {
    uint64 bytes, characters;
} model_size;

/* Characters of a text with this many for a quotation mark and for a backslash. */
static uint64 text_characters(const char *text, uint64 n, int quotation, int backslash) {
    uint64 characters = n;
    for (uint64 k = 0; k < n; k++)
        if (text[k] == '"')
            characters += quotation - 1;
        else if (text[k] == '\\')
            characters += backslash - 1;
        else
            characters += (unsigned char)text[k] < ' ';
    return characters;
}

static void add_TEXT(model_size *to, tusk_strings s, int64 i) {
    if (s.code[i] < 0)
        return;
    const char *text = s.pool[s.code[i]];
    uint64 n = strlen(text);
    to->bytes += n;
    to->characters += text_characters(text, n, 2, 4) + 3; /* within a row */
}

static void add_TEXTS(model_size *to, tusk_names s, int64 i) {
    for (int64 k = s.code[i] < 0 ? 0 : s.begin[s.code[i]];
         s.code[i] >= 0 && k < s.begin[s.code[i] + 1]; k++) {
        uint64 n = strlen(s.pool[k]);
        to->bytes += n + 2 * sizeof(int32);
        to->characters += text_characters(s.pool[k], n, 6, 8) + 5; /* an array within a row */
    }
}

static void add_NUMBERS(model_size *to, tusk_lists l, int64 i) {
    for (int64 k = l.offsets[i]; k < l.offsets[i + 1]; k++)
        to->characters += l.values[k] == 0 ? 2 : isnan(l.values[k]) ? 5 : NUMBER_TEXT;
    to->bytes += (uint64)(l.offsets[i + 1] - l.offsets[i]) * sizeof(double);
}

#define ADD_TEXT(NAME, name) add_TEXT(&size, m->name, i);
#define ADD_TEXTS(NAME, name) add_TEXTS(&size, m->name, i);
#define ADD_NUMBER(NAME, name)
#define ADD_NUMBERS(NAME, name)              \
    if (!(M_##NAME == M_COEF && in_payload)) \
        add_NUMBERS(&size, m->name, i);
#define ADD_COUNT(NAME, name)
#define ADD_TRUTH(NAME, name)
#define ADD_PAYLOAD(NAME, name)
#define ADD(NAME, name, KIND, meaning) ADD_##KIND(NAME, name)

static model_size size_of_model(const tusk_models *m, int64 i, uint64 payload, bool in_payload) {
    model_size size = {payload, 2 * payload};
    size.bytes += THE_REST;
    size.characters += THE_REST;
    TUSK_MODEL_FIELDS(ADD)
    return size;
}

static bool is_too_large(model_size size) {
    return size.characters > (uint64)tuskml_model_limit * 1024 || size.bytes > MaxAllocSize;
}

static void refuse_size(const char *function, model_size size, const char *smaller) {
    ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                    errmsg("%s: a model of %llu kB as text is more than the %d kB of "
                           "tuskml.model_limit, which keep its row below the 1 GB that pg_dump "
                           "can write: expected %s",
                           function, (unsigned long long)(size.characters / 1024),
                           tuskml_model_limit, smaller)));
}

/* Frees the parts. */
static Datum payload_of_parts(tusk_payload_parts *parts) {
    Size size = VARHDRSZ + tusk_payload_size(parts);
    bytea *bytes = palloc_extended(size, MCXT_ALLOC_NO_OOM);
    if (!bytes) {
        tusk_payload_free(parts);
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY),
                        errmsg("train_model: out of memory for a model")));
    }
    SET_VARSIZE(bytes, size);
    tusk_payload_write(parts, VARDATA(bytes));
    tusk_payload_free(parts);
    return PointerGetDatum(bytes);
}

Datum payload_datum(const tusk_model_fields *fields, char *sentence) {
    tusk_payload_parts parts;
    if (!tusk_payload_of(fields, &parts, sentence))
        return (Datum)0;
    uint64 bytes = tusk_payload_size(&parts);
    model_size size = {bytes + VARHDRSZ, 2 * bytes};
    if (is_too_large(size)) {
        tusk_payload_free(&parts);
        refuse_size("model_payload", size, tusk_made_smaller(&parts.head));
    }
    return payload_of_parts(&parts);
}

/* Leaves NULL if the model is invalid for predictions; a prediction then reports why. Returns
 * whether the payload has the coefficients, so that their field is NULL. Rejects a model that
 * is too large before its fields take memory. */
static bool put_payload(field *f, const tusk_models *m, int64 i) {
    tusk_model_fields fields = tusk_fields_of(m, i);
    tusk_payload_parts parts = {0};
    char sentence[TUSK_SENTENCE];
    bool made = tusk_payload_of(&fields, &parts, sentence);
    bool in_payload =
        made && tusk_keeps_weights((tusk_text){(const char *)&parts.head, sizeof parts.head});
    uint64 payload = made ? tusk_payload_size(&parts) : 0;
    model_size size = size_of_model(m, i, payload, in_payload);
    if (is_too_large(size)) {
        if (made)
            tusk_payload_free(&parts);
        refuse_size("train_model", size, tusk_made_smaller(&parts.head));
    }
    if (made)
        *f = (field){payload_of_parts(&parts), false};
    return in_payload;
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
