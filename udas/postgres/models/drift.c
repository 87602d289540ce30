/* drift: an aggregate of the rows of one model. */
#include "predictor.h"

#include "utils/builtins.h"

#include "../../scalars/drift/drift.h"
#include "../metrics/metrics.h"
#include "model_value.h"

enum argument { D_STATE, D_MODEL, D_FEATURES, D_WEIGHT };

#define NAME "drift"

/* The model of the row before, and what reads rows. */
typedef struct call_site {
    MemoryContext model; /* owns the bytes and the histogram */
    void *bytes;
    Size size;
    tusk_text histogram; /* its data is NULL if the model has none */
    number_buffer buffer;
    named_reader named;
    tusk_named_rows rows;
} call_site;

static call_site *site_of(FmgrInfo *called) {
    if (!called->fn_extra) {
        MemoryContext context = called->fn_mcxt;
        call_site *site = MemoryContextAllocZero(context, sizeof *site);
        site->buffer.context = site->named.context = context;
        site->model = AllocSetContextCreate(context, "tuskml histogram", ALLOCSET_SMALL_SIZES);
        called->fn_extra = site;
    }
    return called->fn_extra;
}

/* Reads the histogram of a model unless it is that of the row before. */
static void read_model_of(call_site *site, Datum model) {
    struct varlena *bytes = telling_bytes(model);
    Size size = VARSIZE_ANY(bytes);
    if (site->bytes && site->size == size && memcmp(site->bytes, bytes, size) == 0)
        return;
    site->bytes = NULL;
    MemoryContextReset(site->model);
    MemoryContext before = MemoryContextSwitchTo(site->model);
    void *copy = memcpy(MemoryContextAllocHuge(site->model, size), bytes, size);
    site->histogram = read_histogram(copy);
    MemoryContextSwitchTo(before);
    site->bytes = copy;
    site->size = size;
}

static void add(FunctionCallInfo fcinfo, call_site *site, tusk_drift *d, enum feature_form form) {
    char sentence[TUSK_SENTENCE];
    Datum features = PG_GETARG_DATUM(D_FEATURES);
    tusk_drift_row given = {.weight = PG_NARGS() > D_WEIGHT ? PG_GETARG_FLOAT8(D_WEIGHT) : 1};
    if (form == NAMED) {
        const tusk_named_chunk *row = read_named(&site->named, features, NAME);
        site->rows.column = row->column;
        site->rows.n_columns = (uint32)row->schema->n_columns;
        given.named = &site->rows;
    } else {
        feature_row row = read_gaps(features, true, &site->buffer, NAME);
        given.x = row.values;
        given.n = (uint64)row.n;
        given.f64 = row.f64;
    }
    if (!tusk_drift_add(d, &given, sentence))
        refuse_row(NAME, sentence);
}

PG_FUNCTION_INFO_V1(tuskml_drift_add);
Datum tuskml_drift_add(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    Oid type = get_fn_expr_argtype(fcinfo->flinfo, D_FEATURES);
    enum feature_form form = form_of(type, get_fn_expr_argtype(fcinfo->flinfo, D_MODEL));
    tusk_drift *d = state_at(fcinfo, D_STATE);
    char sentence[TUSK_SENTENCE];
    if (form == SPARSE || (form == NAMED && !is_row_type(type)))
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg(NAME ": features is %s, expected a row with names or an array of "
                                    "numbers",
                               format_type_be(type))));
    for (int i = D_MODEL; i < PG_NARGS(); i++)
        if (PG_ARGISNULL(i))
            return give_state(fcinfo, d);
    call_site *site = site_of(fcinfo->flinfo);
    read_model_of(site, PG_GETARG_DATUM(D_MODEL));
    if (!site->histogram.data)
        return give_state(fcinfo, d);
    if (!d) {
        d = tusk_drift_new(site->histogram, growth_in(context), sentence);
        if (!d)
            refuse_row(NAME, sentence);
    } else if (!tusk_drift_of(d, site->histogram, sentence)) {
        refuse_row(NAME, sentence);
    }
    add(fcinfo, site, d, form);
    PG_RETURN_POINTER(d);
}

/* Leaves the state unchanged: a window continues with it. */
PG_FUNCTION_INFO_V1(tuskml_drift_give);
Datum tuskml_drift_give(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const tusk_drift *d = state_at(fcinfo, D_STATE);
    if (!d)
        PG_RETURN_NULL();
    array_writer *w = array_begin(fcinfo, &TUSK_DRIFT_TABLE);
    tusk_drift_write(d, array_rows(w));
    return array_end(w);
}

static tusk_drift *copy_of(const void *bytes, size_t size, MemoryContext context) {
    void *copy = MemoryContextAllocHuge(context, size);
    return memcpy(copy, bytes, size);
}

PG_FUNCTION_INFO_V1(tuskml_drift_combine);
Datum tuskml_drift_combine(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    tusk_drift *target = state_at(fcinfo, 0);
    const tusk_drift *source = state_at(fcinfo, 1);
    char sentence[TUSK_SENTENCE];
    if (!source)
        return give_state(fcinfo, target);
    if (!target)
        target = copy_of(source, tusk_drift_size(source), context);
    else if (!tusk_drift_merge(target, source, sentence))
        refuse_row(NAME, sentence);
    PG_RETURN_POINTER(target);
}

PG_FUNCTION_INFO_V1(tuskml_drift_serialize);
Datum tuskml_drift_serialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const tusk_drift *d = state_at(fcinfo, 0);
    size_t size = tusk_drift_size(d);
    bytea *image = palloc(VARHDRSZ + size);
    SET_VARSIZE(image, VARHDRSZ + size);
    memcpy(VARDATA(image), d, size);
    PG_RETURN_BYTEA_P(image);
}

PG_FUNCTION_INFO_V1(tuskml_drift_deserialize);
Datum tuskml_drift_deserialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const bytea *image = PG_GETARG_BYTEA_PP(0);
    size_t size = VARSIZE_ANY_EXHDR(image);
    if (!tusk_drift_fit(VARDATA_ANY(image), size))
        ereport(ERROR, (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
                        errmsg("tuskml: %zu bytes are no state of drift", size)));
    PG_RETURN_POINTER(copy_of(VARDATA_ANY(image), size, CurrentMemoryContext));
}
