#include "model_value.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "../../rowblock/batch.h"
#include "../../scalars/drift/drift.h"

/* A field of a model, whatever the order of its type's fields; 0 for NULL. */
static Datum read_field(HeapTupleHeader model, const char *name) {
    TupleDesc type =
        lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(model), HeapTupleHeaderGetTypMod(model));
    int place = SPI_fnumber(type, name);
    ReleaseTupleDesc(type);
    if (place <= 0)
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("tuskml_model has no field %s: ALTER EXTENSION tuskml UPDATE "
                               "adds it",
                               name)));
    bool null;
    Datum datum = GetAttributeByNum(model, (AttrNumber)place, &null);
    return null ? (Datum)0 : datum;
}

static tusk_text payload_of(HeapTupleHeader model) {
    Datum datum = read_field(model, MODEL_FIELD[M_PAYLOAD].name);
    if (!datum)
        return (tusk_text){NULL, 0};
    bytea *bytes = DatumGetByteaPP(datum);
    return (tusk_text){VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)};
}

/* The names of the model's classes, in its memory, which is the current context. */
static void read_names(class_names *names, HeapTupleHeader model) {
    *names = (class_names){.context = CurrentMemoryContext};
    Datum listed = read_field(model, "class_names");
    if (listed)
        deconstruct_array(DatumGetArrayTypeP(listed), TEXTOID, -1, false, TYPALIGN_INT,
                          &names->name, &names->null, &names->n);
}

/* A copy of the payload without the model's other fields, if these were read from TOAST. */
static tusk_text alone(tusk_text payload, HeapTupleHeader model, const void *value) {
    const char *from = (const char *)model, *to = from + HeapTupleHeaderGetDatumLength(model);
    if (!payload.data || (const void *)model == value)
        return payload;
    if (payload.data >= from && payload.data < to) {
        char *bytes = MemoryContextAllocHuge(CurrentMemoryContext, payload.length + 1);
        payload.data = memcpy(bytes, payload.data, payload.length);
    }
    pfree(model);
    return payload;
}

tusk_text read_payload(void *value, class_names *names) {
    HeapTupleHeader model = DatumGetHeapTupleHeader(PointerGetDatum(value));
    tusk_text payload = payload_of(model);
    if (!names)
        return alone(payload, model, value);
    read_names(names, model);
    return payload;
}

class_names read_feature_names(void *value) {
    HeapTupleHeader model = DatumGetHeapTupleHeader(PointerGetDatum(value));
    class_names names = {.context = CurrentMemoryContext};
    Datum listed = read_field(model, MODEL_FIELD[M_FEATURES].name);
    if (listed)
        deconstruct_array(DatumGetArrayTypeP(listed), TEXTOID, -1, false, TYPALIGN_INT,
                          &names.name, &names.null, &names.n);
    return names;
}

tusk_text read_histogram(void *value) {
    HeapTupleHeader model = DatumGetHeapTupleHeader(PointerGetDatum(value));
    Datum found = read_field(model, MODEL_FIELD[M_HISTOGRAM].name);
    if (found)
        return read_text(found, TEXTOID, NULL);
    Datum status = read_field(model, MODEL_FIELD[M_STATUS].name);
    if (!status || strcmp(TextDatumGetCString(status), TUSK_INVALID_ROWS) != 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("drift: %s", TUSK_NO_HISTOGRAM)));
    return (tusk_text){NULL, 0};
}

struct varlena *telling_bytes(Datum model) {
    struct varlena *bytes = (struct varlena *)DatumGetPointer(model);
    bool pointer = VARATT_IS_EXTERNAL(bytes) && !VARATT_IS_EXTERNAL_ONDISK(bytes);
    return pointer ? pg_detoast_datum(bytes) : bytes;
}
