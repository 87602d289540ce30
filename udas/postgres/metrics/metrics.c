/* The metrics that are sums over rows. A row with a NULL is not counted; without rows there is
 * no state, and the result is NULL. */
#include "metrics.h"

#include "../../scalars/metrics/metric.h"

/* It contains no pointers, so parallel workers send a copy of its bytes. */
typedef struct metric_state {
    enum tusk_metric_kind kind;
    tusk_score score;
} metric_state;

/* --- the aggregates --- */

static metric_state *state_new(MemoryContext context, enum tusk_metric_kind kind) {
    metric_state *s = MemoryContextAllocZero(context, sizeof *s);
    s->kind = kind;
    return s;
}

Datum take_judged(FunctionCallInfo fcinfo, enum tusk_metric_kind kind, const tusk_judged *row) {
    MemoryContext context = aggregate_context(fcinfo);
    metric_state *s = state_at(fcinfo, A_STATE);
    if (!s)
        s = state_new(context, kind);
    const tusk_metric *metric = tusk_metric_of(kind);
    char sentence[TUSK_SENTENCE];
    if (!tusk_score_take(&s->score, metric, row, sentence))
        refuse_row(metric->name, sentence);
    PG_RETURN_POINTER(s);
}

static Datum take(FunctionCallInfo fcinfo, enum tusk_metric_kind kind) {
    bool parameter = tusk_metric_of(kind)->parameter;
    tusk_judged row = {0};
    aggregate_context(fcinfo);
    int behind = names_positive(fcinfo) || parameter ? A_FOURTH : A_THIRD;
    if ((parameter && !has_argument(fcinfo, A_THIRD)) ||
        !read_weight(fcinfo, behind, &row.weight) ||
        !read_row(fcinfo, tusk_metric_of(kind)->name, &row.y, &row.p))
        return give_state(fcinfo, state_at(fcinfo, A_STATE));
    if (parameter)
        row.parameter = PG_GETARG_FLOAT8(A_THIRD);
    return take_judged(fcinfo, kind, &row);
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
DEFINE_TAKE(tuskml_brier, TUSK_BRIER)
DEFINE_TAKE(tuskml_mape, TUSK_MAPE)
DEFINE_TAKE(tuskml_pinball, TUSK_PINBALL)
DEFINE_TAKE(tuskml_poisson_deviance, TUSK_POISSON_DEVIANCE)
DEFINE_TAKE(tuskml_gamma_deviance, TUSK_GAMMA_DEVIANCE)
DEFINE_TAKE(tuskml_tweedie_deviance, TUSK_TWEEDIE_DEVIANCE)

/* For two texts it only matters whether their bytes are equal. */
PG_FUNCTION_INFO_V1(tuskml_accuracy_text);
Datum tuskml_accuracy_text(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    tusk_judged row = {.y = 1};
    if (!has_row(fcinfo) || !read_weight(fcinfo, A_THIRD, &row.weight))
        return give_state(fcinfo, state_at(fcinfo, A_STATE));
    const text *a = PG_GETARG_TEXT_PP(A_LABEL), *b = PG_GETARG_TEXT_PP(A_PREDICTED);
    Size n = VARSIZE_ANY_EXHDR(a);
    row.p = n == VARSIZE_ANY_EXHDR(b) && !memcmp(VARDATA_ANY(a), VARDATA_ANY(b), n);
    return take_judged(fcinfo, TUSK_ACCURACY, &row);
}

/* Leaves the state unchanged: a window continues with it. */
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
