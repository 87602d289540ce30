/* model_payload and with_payload: make the payload from a model's other fields. */
#include "../../scalars/models/payload.h"
#include "../../scalars/models/kinds.h"

#include "../training/trainer.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/typcache.h"

static tusk_text read_text(HeapTupleHeader model, enum model_field field) {
    bool null;
    Datum datum = GetAttributeByName(model, MODEL_FIELD[field].name, &null);
    if (null)
        return (tusk_text){NULL, 0};
    text *t = DatumGetTextPP(datum);
    return (tusk_text){VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t)};
}

/* Whether the type has a field, which it may lack before an upgrade. */
static bool has_field(HeapTupleHeader model, enum model_field field) {
    TupleDesc type =
        lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(model), HeapTupleHeaderGetTypMod(model));
    bool has = SPI_fnumber(type, MODEL_FIELD[field].name) > 0;
    ReleaseTupleDesc(type);
    return has;
}

/* The items of a list with a NULL are not read, but the memory must exist. */
static tusk_numbers read_list(HeapTupleHeader model, enum model_field field) {
    bool null;
    Datum datum = GetAttributeByName(model, MODEL_FIELD[field].name, &null);
    if (null)
        return (tusk_numbers){NULL, 0, true};
    ArrayType *a = DatumGetArrayTypeP(datum);
    uint64 n = (uint64)ArrayGetNItems(ARR_NDIM(a), ARR_DIMS(a));
    if (ARR_HASNULL(a) && array_contains_nulls(a))
        return (tusk_numbers){palloc0(n * sizeof(double)), n, false};
    return (tusk_numbers){(const double *)ARR_DATA_PTR(a), n, true};
}

static void refuse(const char *sentence) {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("model_payload: %s", sentence)));
}

static tusk_text text_of(bytea *bytes) {
    return (tusk_text){VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)};
}

static void refuse_bytes(const char *sqlstate, const char *sentence) {
    const char *s = sqlstate ? sqlstate : "22023";
    ereport(ERROR, (errcode(MAKE_SQLSTATE(s[0], s[1], s[2], s[3], s[4])), errmsg("%s", sentence)));
}

static void check_kept(bytea *bytes) {
    char sentence[TUSK_SENTENCE];
    const char *sqlstate;
    if (!tusk_check_kept(text_of(bytes), sentence, &sqlstate))
        refuse_bytes(sqlstate, sentence);
}

/* The trees of a payload with their compact form. */
static tusk_compact trees_of(bytea *bytes) {
    char sentence[TUSK_SENTENCE];
    const char *sqlstate;
    tusk_compact trees;
    if (!tusk_compact_trees_of(text_of(bytes), &trees, sentence, &sqlstate))
        refuse_bytes(sqlstate, sentence);
    return trees;
}

/* The payload of a model without coefficients, if it has the weights; NULL otherwise. */
static bytea *payload_with_weights(HeapTupleHeader model) {
    bool no_coef, null;
    GetAttributeByName(model, MODEL_FIELD[M_COEF].name, &no_coef);
    Datum payload = GetAttributeByName(model, MODEL_FIELD[M_PAYLOAD].name, &null);
    bytea *bytes = null ? NULL : DatumGetByteaPP(payload);
    if (no_coef && bytes && tusk_keeps_weights(text_of(bytes))) {
        check_kept(bytes);
        return bytes;
    }
    Datum iterations = GetAttributeByName(model, MODEL_FIELD[M_ITERATIONS].name, &null);
    const tusk_model_kind *kind = tusk_kind_named(read_text(model, M_TASK));
    if (no_coef && !null && DatumGetInt64(iterations) > 0 && kind && kind->lost)
        refuse(kind->lost);
    return NULL;
}

static tusk_text name_in_array(const void *names, uint64_t k) {
    Datum name = ((const Datum *)names)[k];
    return name ? text_of(DatumGetByteaPP(name)) : (tusk_text){NULL, 0};
}

static tusk_class_names class_names_of(HeapTupleHeader model) {
    Datum *name; /* 0 for a NULL */
    bool *missing, null;
    int n;
    Datum listed = GetAttributeByName(model, MODEL_FIELD[M_CLASS_NAMES].name, &null);
    if (null)
        return (tusk_class_names){0};
    deconstruct_array(DatumGetArrayTypeP(listed), TEXTOID, -1, false, TYPALIGN_INT, &name,
                      &missing, &n);
    return (tusk_class_names){name_in_array, name, 0, (uint64_t)n};
}

static Datum payload_of(HeapTupleHeader model) {
    bool null;
    bytea *kept = payload_with_weights(model);
    if (kept)
        return PointerGetDatum(kept);
    Datum intercept = GetAttributeByName(model, MODEL_FIELD[M_INTERCEPT].name, &null);
    tusk_model_fields fields = {
        .task = read_text(model, M_TASK),
        .options = read_text(model, M_OPTIONS),
        .preparation =
            has_field(model, M_PREPARATION) ? read_text(model, M_PREPARATION) : (tusk_text){0},
        .coef = read_list(model, M_COEF),
        .classes = read_list(model, M_CLASSES),
        .spread = has_field(model, M_SPREAD) ? read_list(model, M_SPREAD)
                                             : (tusk_numbers){NULL, 0, true},
        .class_names = class_names_of(model),
        .has_intercept = !null,
        .intercept = null ? 0 : DatumGetFloat8(intercept),
    };
    char sentence[TUSK_SENTENCE];
    Datum payload = payload_datum(&fields, sentence);
    if (!payload)
        refuse(sentence);
    return payload;
}

PG_FUNCTION_INFO_V1(tuskml_tree_numbers);
Datum tuskml_tree_numbers(PG_FUNCTION_ARGS) {
    bytea *payload = PG_GETARG_BYTEA_PP(0);
    if (!tusk_has_compact_trees(text_of(payload)))
        PG_RETURN_NULL();
    tusk_compact trees = trees_of(payload);
    uint64 n = tusk_compact_numbers(&trees);
    if (n > MaxAllocSize / sizeof(double) / 2)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("the trees of the model have too many nodes for a value")));
    Size size = ARR_OVERHEAD_NONULLS(1) + n * sizeof(double);
    ArrayType *numbers = palloc0(size);
    SET_VARSIZE(numbers, size);
    numbers->ndim = 1;
    numbers->elemtype = FLOAT8OID;
    ARR_DIMS(numbers)[0] = (int)n;
    ARR_LBOUND(numbers)[0] = 1;
    if (!tusk_compact_write(&trees, (double *)ARR_DATA_PTR(numbers)))
        ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                        errmsg("a split of the trees points at no node")));
    PG_RETURN_ARRAYTYPE_P(numbers);
}

PG_FUNCTION_INFO_V1(tuskml_model_payload);
Datum tuskml_model_payload(PG_FUNCTION_ARGS) {
    PG_RETURN_DATUM(payload_of(PG_GETARG_HEAPTUPLEHEADER(0)));
}

PG_FUNCTION_INFO_V1(tuskml_with_payload);
Datum tuskml_with_payload(PG_FUNCTION_ARGS) {
    HeapTupleHeader model = PG_GETARG_HEAPTUPLEHEADER(0);
    Datum value[1] = {payload_of(model)};
    bool null[1] = {false};
    TupleDesc type =
        lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(model), HeapTupleHeaderGetTypMod(model));
    int place[1] = {SPI_fnumber(type, MODEL_FIELD[M_PAYLOAD].name)};
    HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(model), .t_data = model};
    HeapTuple renewed = heap_modify_tuple_by_cols(&tuple, type, 1, place, value, null);
    Datum found = HeapTupleGetDatum(renewed);
    ReleaseTupleDesc(type);
    PG_RETURN_DATUM(found);
}
