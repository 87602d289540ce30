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
#include "../training/refusals.h"

enum argument { A_MODEL, A_FEATURES };

/* A model that has been read. */
struct predictor {
    MemoryContext model; /* holds the bytes and what the scorer points to */
    const void *bytes;   /* of the model that was read last; NULL if none was */
    Size size;
    tusk_scorer scorer;
    number_buffer buffer;
    named_reader reader;
    tusk_named_rows rows;
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
    tusk_named_free(&((predictor *)p)->rows);
}

predictor *new_predictor(MemoryContext context) {
    predictor *p = MemoryContextAllocZero(context, sizeof *p);
    p->model = AllocSetContextCreate(context, "tuskml model", ALLOCSET_START_SMALL_SIZES);
    p->buffer.context = p->reader.context = context;
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
        tusk_to_probabilities(s, &margin, 1);
    else if (answer == TUSK_PREDICT || answer == TUSK_PREDICT_CLASS)
        tusk_to_predictions(s, &margin, 1);
    return margin;
}

/* A row by name as ids and values. Returns false if it has no prediction. */
static bool expand_row(predictor *p, Datum features, enum tusk_answer answer,
                       tusk_sparse_row *found) {
    const tusk_named_chunk *row = read_named(&p->reader, features, TUSK_ANSWER_NAMES[answer]);
    if (p->rows.column != row->column)
        p->rows.n_matched = 0;
    p->rows.column = row->column;
    p->rows.n_columns = (uint32)row->schema->n_columns;
    char sentence[TUSK_SENTENCE];
    bool null;
    if (!tusk_named_match(&p->rows, &p->scorer, sentence) ||
        !tusk_named_row(&p->rows, &p->scorer, 0, found, &null, sentence))
        refuse(&p->scorer, answer, sentence);
    return !null;
}

static NullableDatum score_row(predictor *p, Datum features, enum tusk_answer answer) {
    tusk_sparse_row found;
    if (!expand_row(p, features, answer, &found))
        return (NullableDatum){.isnull = true};
    char sentence[TUSK_SENTENCE];
    double margin;
    if (!tusk_sparse_margin(&p->scorer, &found, true, &margin, sentence))
        refuse(&p->scorer, answer, sentence);
    return (NullableDatum){.value = Float8GetDatum(answer_of(&p->scorer, margin, answer))};
}

/* Trees have a side for rows with a NULL, other models no answer. */
static feature_row read_list(predictor *p, Datum features, enum feature_form form,
                             const char *name) {
    if (form == SPARSE)
        return read_sparse(features, &p->buffer, name);
    return p->scorer.task == TUSK_BOOSTED ? read_gaps(features, &p->buffer, name)
                                          : read_dense(features, &p->buffer, name, "features");
}

NullableDatum score_features(predictor *p, NullableDatum features, enum tusk_answer answer,
                             enum feature_form form) {
    const NullableDatum null = {.isnull = true};
    if (p->scorer.null || features.isnull)
        return null;
    const char *name = TUSK_ANSWER_NAMES[answer];
    if (form == NAMED)
        return score_row(p, features.value, answer);
    if (p->scorer.preparation.length)
        refuse(&p->scorer, answer, TUSK_NEEDS_NAMES);
    feature_row row = read_list(p, features.value, form, name);
    if (row.null)
        return null;
    char sentence[TUSK_SENTENCE];
    double margin;
    if (!margin_of(&p->scorer, &row, &margin, sentence))
        refuse(&p->scorer, answer, sentence);
    return (NullableDatum){.value = Float8GetDatum(answer_of(&p->scorer, margin, answer))};
}

/* The list of a row as a datum. */
static Datum list_datum(tusk_scorer *s, const tusk_sparse_row *ids, const feature_row *row,
                        enum tusk_answer answer) {
    double *numbers = palloc(s->list_size * sizeof *numbers);
    Datum *items = palloc(s->list_size * sizeof *items);
    char sentence[TUSK_SENTENCE];
    bool f64 = !row || row->f64;
    if (!tusk_list(s, ids, row ? row->values : NULL, f64, row ? (uint64)row->n : 0, numbers,
                   sentence))
        refuse(s, answer, sentence);
    for (uint64 k = 0; k < s->list_size; k++)
        items[k] = Float8GetDatum(numbers[k]);
    return PointerGetDatum(construct_array(items, (int)s->list_size, FLOAT8OID, sizeof(double),
                                           FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

static NullableDatum list_of(predictor *p, NullableDatum features, enum tusk_answer answer,
                             enum feature_form form) {
    const NullableDatum null = {.isnull = true};
    const char *name = TUSK_ANSWER_NAMES[answer];
    tusk_sparse_row ids;
    if (p->scorer.null || features.isnull)
        return null;
    if (form == NAMED) {
        if (!expand_row(p, features.value, answer, &ids))
            return null;
        return (NullableDatum){.value = list_datum(&p->scorer, &ids, NULL, answer)};
    }
    if (p->scorer.preparation.length)
        refuse(&p->scorer, answer, TUSK_NEEDS_NAMES);
    feature_row row = read_list(p, features.value, form, name);
    if (row.null)
        return null;
    ids = (tusk_sparse_row){row.index, row.values, (uint64)row.n_index, (uint64)row.n};
    return (NullableDatum){.value =
                               list_datum(&p->scorer, form == SPARSE ? &ids : NULL, &row, answer)};
}

static Datum score(FunctionCallInfo fcinfo, enum tusk_answer answer, enum feature_form form) {
    if (form == NAMED && !is_row_type(get_fn_expr_argtype(fcinfo->flinfo, A_FEATURES)))
        refuse_prediction(fcinfo);
    if (PG_ARGISNULL(A_MODEL))
        PG_RETURN_NULL();
    predictor *p = predictor_of(fcinfo->flinfo, PG_GETARG_DATUM(A_MODEL), answer);
    NullableDatum found = tusk_answers_lists(answer)
                              ? list_of(p, fcinfo->args[A_FEATURES], answer, form)
                              : score_features(p, fcinfo->args[A_FEATURES], answer, form);
    if (found.isnull)
        PG_RETURN_NULL();
    return found.value;
}

#define DEFINE_SCORE(name, answer, form)    \
    PG_FUNCTION_INFO_V1(name);              \
    Datum name(PG_FUNCTION_ARGS) {          \
        return score(fcinfo, answer, form); \
    }

DEFINE_SCORE(tuskml_predict_dense, TUSK_PREDICT, DENSE)
DEFINE_SCORE(tuskml_predict_sparse, TUSK_PREDICT, SPARSE)
DEFINE_SCORE(tuskml_predict_row, TUSK_PREDICT, NAMED)
DEFINE_SCORE(tuskml_predict_proba_dense, TUSK_PREDICT_PROBA, DENSE)
DEFINE_SCORE(tuskml_predict_proba_sparse, TUSK_PREDICT_PROBA, SPARSE)
DEFINE_SCORE(tuskml_predict_proba_row, TUSK_PREDICT_PROBA, NAMED)
DEFINE_SCORE(tuskml_predict_class_dense, TUSK_PREDICT_CLASS, DENSE)
DEFINE_SCORE(tuskml_predict_class_sparse, TUSK_PREDICT_CLASS, SPARSE)
DEFINE_SCORE(tuskml_predict_class_row, TUSK_PREDICT_CLASS, NAMED)
DEFINE_SCORE(tuskml_predict_probas_dense, TUSK_PREDICT_PROBAS, DENSE)
DEFINE_SCORE(tuskml_predict_probas_sparse, TUSK_PREDICT_PROBAS, SPARSE)
DEFINE_SCORE(tuskml_predict_probas_row, TUSK_PREDICT_PROBAS, NAMED)
DEFINE_SCORE(tuskml_explain_dense, TUSK_EXPLAIN_PREDICTION, DENSE)
DEFINE_SCORE(tuskml_explain_sparse, TUSK_EXPLAIN_PREDICTION, SPARSE)
DEFINE_SCORE(tuskml_explain_row, TUSK_EXPLAIN_PREDICTION, NAMED)
DEFINE_SCORE(tuskml_decision_dense, TUSK_DECISION, DENSE)
DEFINE_SCORE(tuskml_decision_sparse, TUSK_DECISION, SPARSE)
DEFINE_SCORE(tuskml_decision_row, TUSK_DECISION, NAMED)
