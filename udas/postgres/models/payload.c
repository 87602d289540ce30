/* model_payload and with_payload: make the payload from a model's other fields. */
#include "../../scalars/models/payload.h"

#include "../training/emit.h"

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

/* The same of a field that a type which was not upgraded lacks. */
static tusk_text read_text_if_any(HeapTupleHeader model, enum model_field field) {
    TupleDesc type =
        lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(model), HeapTupleHeaderGetTypMod(model));
    bool has = SPI_fnumber(type, MODEL_FIELD[field].name) > 0;
    ReleaseTupleDesc(type);
    return has ? read_text(model, field) : (tusk_text){NULL, 0};
}

/* The items of a list that has a NULL are not read, but the memory must be there. */
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

static Datum payload_of(HeapTupleHeader model) {
    bool null;
    Datum intercept = GetAttributeByName(model, MODEL_FIELD[M_INTERCEPT].name, &null);
    tusk_model_fields fields = {
        .task = read_text(model, M_TASK),
        .options = read_text(model, M_OPTIONS),
        .preparation = read_text_if_any(model, M_PREPARATION),
        .coef = read_list(model, M_COEF),
        .classes = read_list(model, M_CLASSES),
        .has_intercept = !null,
        .intercept = null ? 0 : DatumGetFloat8(intercept),
    };
    char sentence[TUSK_SENTENCE];
    Datum payload = payload_datum(&fields, sentence);
    if (!payload)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("model_payload: %s", sentence)));
    return payload;
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
