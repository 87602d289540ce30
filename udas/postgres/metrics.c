/* log_loss, accuracy, rmse, mae and r2. A row with a NULL counts nowhere; without rows there is no
 * state, and the answer is NULL. */
#include "metrics.h"

#include "../scalars/metric.h"

/* Bytes without pointers, so that its image is what parallel workers send. */
typedef struct metric_state {
    enum tusk_metric_kind kind;
    tusk_score score;
} metric_state;

/* --- what auc uses too --- */

/* The types of a transition's arguments, kept from row to row. */
typedef struct row_types {
    Oid label, predicted;
} row_types;

static const row_types *types_of(FmgrInfo *site) {
    row_types *t = site->fn_extra;
    if (t)
        return t;
    t = MemoryContextAlloc(site->fn_mcxt, sizeof *t);
    t->label = get_fn_expr_argtype(site, A_LABEL);
    t->predicted = get_fn_expr_argtype(site, A_PREDICTED);
    site->fn_extra = t;
    return t;
}

bool read_row(FunctionCallInfo fcinfo, double *label, double *predicted) {
    if (PG_ARGISNULL(A_LABEL) || PG_ARGISNULL(A_PREDICTED))
        return false;
    const row_types *t = types_of(fcinfo->flinfo);
    *label = read_number(PG_GETARG_DATUM(A_LABEL), t->label);
    *predicted = read_number(PG_GETARG_DATUM(A_PREDICTED), t->predicted);
    return true;
}

void refuse_row(const char *name, const char *sentence) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s: %s", name, sentence)));
}

/* --- the aggregates --- */

static metric_state *state_new(MemoryContext context, enum tusk_metric_kind kind) {
    metric_state *s = MemoryContextAllocZero(context, sizeof *s);
    s->kind = kind;
    return s;
}

static metric_state *state_at(FunctionCallInfo fcinfo, int argument) {
    return PG_ARGISNULL(argument) ? NULL : (metric_state *)PG_GETARG_POINTER(argument);
}

static Datum give_state(FunctionCallInfo fcinfo, metric_state *s) {
    if (!s)
        PG_RETURN_NULL();
    PG_RETURN_POINTER(s);
}

static Datum take(FunctionCallInfo fcinfo, enum tusk_metric_kind kind) {
    MemoryContext context = aggregate_context(fcinfo);
    metric_state *s = state_at(fcinfo, A_STATE);
    double label, predicted;
    if (!read_row(fcinfo, &label, &predicted))
        return give_state(fcinfo, s);
    if (!s)
        s = state_new(context, kind);
    const tusk_metric *metric = tusk_metric_of(kind);
    char sentence[TUSK_SENTENCE];
    if (!tusk_score_take(&s->score, metric, label, predicted, sentence))
        refuse_row(metric->name, sentence);
    PG_RETURN_POINTER(s);
}

#define DEFINE_TAKE(name, kind)    \
    PG_FUNCTION_INFO_V1(name);     \
    Datum name(PG_FUNCTION_ARGS) { \
        return take(fcinfo, kind); \
    }

DEFINE_TAKE(tuskml_log_loss, TUSK_LOG_LOSS)
DEFINE_TAKE(tuskml_accuracy, TUSK_ACCURACY)
DEFINE_TAKE(tuskml_rmse, TUSK_RMSE)
DEFINE_TAKE(tuskml_mae, TUSK_MAE)
DEFINE_TAKE(tuskml_r2, TUSK_R2)

/* The state is left as it was: a window goes on with it. */
PG_FUNCTION_INFO_V1(tuskml_metric_give);
Datum tuskml_metric_give(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const metric_state *s = state_at(fcinfo, A_STATE);
    if (!s)
        PG_RETURN_NULL();
    bool null;
    double score = tusk_score_give(&s->score, tusk_metric_of(s->kind), &null);
    if (null)
        PG_RETURN_NULL();
    PG_RETURN_FLOAT8(score);
}

PG_FUNCTION_INFO_V1(tuskml_metric_combine);
Datum tuskml_metric_combine(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    metric_state *target = state_at(fcinfo, 0);
    const metric_state *source = state_at(fcinfo, 1);
    if (!source)
        return give_state(fcinfo, target);
    if (!target)
        target = state_new(context, source->kind);
    char sentence[TUSK_SENTENCE];
    if (!tusk_score_merge(&target->score, &source->score, sentence))
        refuse_row(tusk_metric_of(target->kind)->name, sentence);
    PG_RETURN_POINTER(target);
}

PG_FUNCTION_INFO_V1(tuskml_metric_serialize);
Datum tuskml_metric_serialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    bytea *image = palloc(VARHDRSZ + sizeof(metric_state));
    SET_VARSIZE(image, VARHDRSZ + sizeof(metric_state));
    memcpy(VARDATA(image), PG_GETARG_POINTER(0), sizeof(metric_state));
    PG_RETURN_BYTEA_P(image);
}

PG_FUNCTION_INFO_V1(tuskml_metric_deserialize);
Datum tuskml_metric_deserialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const bytea *image = PG_GETARG_BYTEA_PP(0);
    metric_state *s = palloc(sizeof *s);
    if (VARSIZE_ANY_EXHDR(image) == sizeof *s)
        memcpy(s, VARDATA_ANY(image), sizeof *s);
    if (VARSIZE_ANY_EXHDR(image) != sizeof *s || (unsigned)s->kind >= TUSK_METRICS)
        ereport(ERROR, (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
                        errmsg("tuskml: %zu bytes are no state of a metric",
                               (size_t)VARSIZE_ANY_EXHDR(image))));
    PG_RETURN_POINTER(s);
}
