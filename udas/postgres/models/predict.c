/* predict, predict_proba and decision: compute a number from a model and the features of a row.
 *
 * A model is read once and kept as long as the next rows bring the same bytes. Usually all rows
 * of a query have one model, passed as the few bytes that say where TOAST keeps it.
 */
#include "predict.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "../../scalars/models/payload.h"
#include "../stores.h"

enum argument { A_MODEL, A_FEATURES };

/* A model that has been read. */
struct predictor {
    MemoryContext model; /* holds the bytes and what the scorer points to */
    const void *bytes;   /* of the model that was read last; NULL if none was */
    Size size;
    tusk_scorer scorer;
    number_buffer buffer;
    MemoryContextCallback end;
};

static void refuse(const tusk_scorer *s, enum tusk_answer answer, const char *sentence) {
    const char *state = s->sqlstate ? s->sqlstate : "22023";
    ereport(ERROR, (errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
                    errmsg("%s: %s", TUSK_ANSWER_NAMES[answer], sentence)));
}

/* --- reading the model --- */

/* The payload of a model, whatever the order of its type's fields. No other field is read. */
static tusk_text read_payload(HeapTupleHeader model) {
    TupleDesc type =
        lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(model), HeapTupleHeaderGetTypMod(model));
    int place = SPI_fnumber(type, MODEL_FIELD[M_PAYLOAD].name);
    ReleaseTupleDesc(type);
    if (place <= 0)
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("tuskml_model has no field payload: ALTER EXTENSION tuskml UPDATE "
                               "adds it")));
    bool null;
    Datum datum = GetAttributeByNum(model, (AttrNumber)place, &null);
    if (null)
        return (tusk_text){NULL, 0};
    bytea *bytes = DatumGetByteaPP(datum);
    return (tusk_text){VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)};
}

/* The bytes that identify a model: its value in the row, or the pointer that says where TOAST
 * keeps it. An address in memory does not identify it, because another model may lie there
 * later. */
static struct varlena *telling_bytes(Datum model) {
    struct varlena *bytes = (struct varlena *)DatumGetPointer(model);
    bool pointer = VARATT_IS_EXTERNAL(bytes) && !VARATT_IS_EXTERNAL_ONDISK(bytes);
    return pointer ? pg_detoast_datum(bytes) : bytes;
}

void read_model(predictor *p, const struct varlena *bytes, enum tusk_answer answer) {
    p->bytes = NULL;
    tusk_forget_model(&p->scorer);
    MemoryContextReset(p->model);
    MemoryContext before = MemoryContextSwitchTo(p->model);
    Size size = VARSIZE_ANY(bytes);
    void *copy = MemoryContextAllocHuge(p->model, size);
    memcpy(copy, bytes, size);
    tusk_text payload = read_payload(DatumGetHeapTupleHeader(PointerGetDatum(copy)));
    tusk_stores stores = backend_stores();
    char sentence[TUSK_SENTENCE] = TUSK_NO_PAYLOAD;
    if (!payload.data || !tusk_read_model(payload, &stores, answer, &p->scorer, sentence))
        refuse(&p->scorer, answer, sentence);
    MemoryContextSwitchTo(before);
    p->bytes = copy;
    p->size = size;
}

static void forget(void *p) {
    tusk_forget_model(&((predictor *)p)->scorer);
}

predictor *new_predictor(MemoryContext context) {
    predictor *p = MemoryContextAllocZero(context, sizeof *p);
    p->model = AllocSetContextCreate(context, "tuskml model", ALLOCSET_START_SMALL_SIZES);
    p->buffer.context = context;
    p->end = (MemoryContextCallback){.func = forget, .arg = p};
    MemoryContextRegisterResetCallback(context, &p->end);
    return p;
}

static predictor *predictor_of(FmgrInfo *site, Datum model, enum tusk_answer answer) {
    if (!site->fn_extra)
        site->fn_extra = new_predictor(site->fn_mcxt);
    predictor *p = site->fn_extra;
    const struct varlena *bytes = telling_bytes(model);
    if (!p->bytes || p->size != VARSIZE_ANY(bytes) || memcmp(p->bytes, bytes, p->size) != 0)
        read_model(p, bytes, answer);
    return p;
}

/* --- scoring --- */

static bool margin_of(tusk_scorer *s, const feature_row *row, double *margin, char *sentence) {
    if (!row->sparse)
        return tusk_margins(s, row->values, row->f64, (uint64)row->n, 1, margin, sentence);
    tusk_sparse_row sparse = {row->index, row->values, (uint64)row->n_index, (uint64)row->n};
    return tusk_sparse_margin(s, &sparse, row->f64, margin, sentence);
}

static double answer_of(const tusk_scorer *s, double margin, enum tusk_answer answer) {
    if (answer == TUSK_PREDICT_PROBA)
        tusk_to_probabilities(&margin, 1);
    else if (answer == TUSK_PREDICT || answer == TUSK_PREDICT_CLASS)
        tusk_to_predictions(s, &margin, 1);
    return margin;
}

NullableDatum score_features(predictor *p, NullableDatum features, enum tusk_answer answer,
                             bool sparse) {
    const NullableDatum null = {.isnull = true};
    if (p->scorer.null || features.isnull)
        return null;
    const char *name = TUSK_ANSWER_NAMES[answer];
    feature_row row = sparse ? read_sparse(features.value, &p->buffer, name)
                             : read_dense(features.value, &p->buffer, name, "features");
    if (row.null)
        return null;
    char sentence[TUSK_SENTENCE];
    double margin;
    if (!margin_of(&p->scorer, &row, &margin, sentence))
        refuse(&p->scorer, answer, sentence);
    return (NullableDatum){.value = Float8GetDatum(answer_of(&p->scorer, margin, answer))};
}

/* The probabilities of all classes as a datum, or NULL. */
static NullableDatum probabilities_of(predictor *p, NullableDatum features, bool sparse) {
    const NullableDatum null = {.isnull = true};
    tusk_scorer *s = &p->scorer;
    if (s->null || features.isnull)
        return null;
    const char *name = TUSK_ANSWER_NAMES[TUSK_PREDICT_PROBAS];
    feature_row row = sparse ? read_sparse(features.value, &p->buffer, name)
                             : read_dense(features.value, &p->buffer, name, "features");
    if (row.null)
        return null;
    tusk_sparse_row ids = {row.index, row.values, (uint64)row.n_index, (uint64)row.n};
    double *share = palloc(s->n_classes * sizeof *share);
    Datum *items = palloc(s->n_classes * sizeof *items);
    char sentence[TUSK_SENTENCE];
    if (!tusk_probabilities(s, sparse ? &ids : NULL, row.values, row.f64, (uint64)row.n, share,
                            sentence))
        refuse(s, TUSK_PREDICT_PROBAS, sentence);
    for (uint64 k = 0; k < s->n_classes; k++)
        items[k] = Float8GetDatum(share[k]);
    ArrayType *list = construct_array(items, (int)s->n_classes, FLOAT8OID, sizeof(double),
                                      FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
    return (NullableDatum){.value = PointerGetDatum(list)};
}

static Datum score(FunctionCallInfo fcinfo, enum tusk_answer answer, bool sparse) {
    if (PG_ARGISNULL(A_MODEL))
        PG_RETURN_NULL();
    predictor *p = predictor_of(fcinfo->flinfo, PG_GETARG_DATUM(A_MODEL), answer);
    NullableDatum found = answer == TUSK_PREDICT_PROBAS
                              ? probabilities_of(p, fcinfo->args[A_FEATURES], sparse)
                              : score_features(p, fcinfo->args[A_FEATURES], answer, sparse);
    if (found.isnull)
        PG_RETURN_NULL();
    return found.value;
}

#define DEFINE_SCORE(name, answer, sparse)    \
    PG_FUNCTION_INFO_V1(name);                \
    Datum name(PG_FUNCTION_ARGS) {            \
        return score(fcinfo, answer, sparse); \
    }

DEFINE_SCORE(tuskml_predict_dense, TUSK_PREDICT, false)
DEFINE_SCORE(tuskml_predict_sparse, TUSK_PREDICT, true)
DEFINE_SCORE(tuskml_predict_proba_dense, TUSK_PREDICT_PROBA, false)
DEFINE_SCORE(tuskml_predict_proba_sparse, TUSK_PREDICT_PROBA, true)
DEFINE_SCORE(tuskml_predict_class_dense, TUSK_PREDICT_CLASS, false)
DEFINE_SCORE(tuskml_predict_class_sparse, TUSK_PREDICT_CLASS, true)
DEFINE_SCORE(tuskml_predict_probas_dense, TUSK_PREDICT_PROBAS, false)
DEFINE_SCORE(tuskml_predict_probas_sparse, TUSK_PREDICT_PROBAS, true)
DEFINE_SCORE(tuskml_decision_dense, TUSK_DECISION, false)
DEFINE_SCORE(tuskml_decision_sparse, TUSK_DECISION, true)
