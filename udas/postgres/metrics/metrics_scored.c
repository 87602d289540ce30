/* The metrics that rank the scores of all rows: auc, ks, psi, average_precision, roc_curve,
 * calibration, lift and those at k. */
#include "metrics.h"

#include "catalog/pg_type.h"
#include "utils/memutils.h"

#include "../../scalars/metrics/curves.h"

typedef struct scored_state {
    enum tusk_ranking_kind kind;
    tusk_scored scored;
} scored_state;

/* Message of parallel workers: this header, then for both lists the keys and, if rows have
 * them, the weights. */
typedef struct scored_image {
    int64 kind, bins, weighted;
    double label[2];
    int64 n[2];
} scored_image;

static scored_state *state_new(MemoryContext context, enum tusk_ranking_kind kind) {
    scored_state *s = MemoryContextAllocZero(context, sizeof *s);
    s->kind = kind;
    return s;
}

static const char *name_of(const scored_state *s) {
    return tusk_ranking_of(s->kind)->name;
}

static Datum take(FunctionCallInfo fcinfo, enum tusk_ranking_kind kind) {
    MemoryContext context = aggregate_context(fcinfo);
    scored_state *s = state_at(fcinfo, A_STATE);
    const tusk_ranking *ranking = tusk_ranking_of(kind);
    int behind = names_positive(fcinfo) ? A_FOURTH : A_THIRD;
    int weight_place = tusk_has_bins(ranking) ? behind + 1 : behind;
    tusk_ranked row;
    if (!read_weight(fcinfo, weight_place, &row.weight) ||
        !read_row(fcinfo, ranking->name, &row.y, &row.score))
        return give_state(fcinfo, s);
    if (!s)
        s = state_new(context, kind);
    bool bins = tusk_has_bins(ranking) && has_argument(fcinfo, behind);
    bool small = behind == A_FOURTH && types_of(fcinfo->flinfo)->fourth == INT4OID;
    row.bins = !bins   ? tusk_default_bins(ranking)
               : small ? PG_GETARG_INT32(behind)
                       : PG_GETARG_INT64(behind);
    s->scored.weighted = PG_NARGS() > weight_place;
    char sentence[TUSK_SENTENCE];
    if (!tusk_scored_take(&s->scored, tusk_ranking_of(kind), &row, growth_in(context), sentence))
        refuse_row(name_of(s), sentence);
    PG_RETURN_POINTER(s);
}

#define DEFINE_TAKE(name, kind)    \
    PG_FUNCTION_INFO_V1(name);     \
    Datum name(PG_FUNCTION_ARGS) { \
        return take(fcinfo, kind); \
    }

DEFINE_TAKE(tuskml_auc, TUSK_AUC)
DEFINE_TAKE(tuskml_average_precision, TUSK_AVERAGE_PRECISION)
DEFINE_TAKE(tuskml_ks, TUSK_KS)
DEFINE_TAKE(tuskml_psi, TUSK_PSI)
DEFINE_TAKE(tuskml_roc_curve, TUSK_ROC_CURVE)
DEFINE_TAKE(tuskml_precision_recall_curve, TUSK_PRECISION_RECALL)
DEFINE_TAKE(tuskml_calibration, TUSK_CALIBRATION)
DEFINE_TAKE(tuskml_lift, TUSK_LIFT)
DEFINE_TAKE(tuskml_ndcg, TUSK_NDCG)
DEFINE_TAKE(tuskml_precision_at_k, TUSK_PRECISION_AT_K)
DEFINE_TAKE(tuskml_recall_at_k, TUSK_RECALL_AT_K)
DEFINE_TAKE(tuskml_average_precision_at_k, TUSK_AVERAGE_PRECISION_AT_K)

static uint64 *work_for(const scored_state *s) {
    return MemoryContextAllocHuge(CurrentMemoryContext, tusk_scored_work(&s->scored) + 1);
}

PG_FUNCTION_INFO_V1(tuskml_scored_number);
Datum tuskml_scored_number(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const scored_state *s = state_at(fcinfo, A_STATE);
    if (!s)
        PG_RETURN_NULL();
    uint64 *work = work_for(s);
    tusk_ranks ranks = tusk_rank(&s->scored, work, breathe);
    bool null;
    double number = tusk_ranks_number(&ranks, s->kind, s->scored.bins, &null);
    pfree(work);
    if (null)
        PG_RETURN_NULL();
    PG_RETURN_FLOAT8(number);
}

PG_FUNCTION_INFO_V1(tuskml_scored_table);
Datum tuskml_scored_table(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const scored_state *s = state_at(fcinfo, A_STATE);
    const tusk_table *table = s ? tusk_ranking_table(s->kind) : NULL;
    if (!table)
        PG_RETURN_NULL();
    uint64 *work = work_for(s);
    tusk_ranks ranks = tusk_rank(&s->scored, work, breathe);
    if (!tusk_ranks_known(&ranks, s->kind))
        PG_RETURN_NULL();
    array_writer *w = array_begin(fcinfo, table);
    tusk_ranks_write(&ranks, s->kind, s->scored.bins, array_rows(w));
    pfree(work);
    return array_end(w);
}

PG_FUNCTION_INFO_V1(tuskml_scored_combine);
Datum tuskml_scored_combine(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    scored_state *target = state_at(fcinfo, 0);
    const scored_state *source = state_at(fcinfo, 1);
    if (!source)
        return give_state(fcinfo, target);
    if (!target)
        target = state_new(context, source->kind);
    char sentence[TUSK_SENTENCE];
    if (!tusk_scored_merge(&target->scored, &source->scored, tusk_ranking_of(source->kind),
                           growth_in(context), sentence))
        refuse_row(name_of(source), sentence);
    PG_RETURN_POINTER(target);
}

PG_FUNCTION_INFO_V1(tuskml_scored_serialize);
Datum tuskml_scored_serialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const scored_state *state = state_at(fcinfo, 0);
    const tusk_scored *s = &state->scored;
    scored_image head = {state->kind,
                         s->bins,
                         s->weighted,
                         {s->lists[0].label, s->lists[1].label},
                         {s->lists[0].n, s->lists[1].n}};
    Size each = s->weighted ? sizeof(uint64) + sizeof(double) : sizeof(uint64);
    Size bytes = VARHDRSZ + sizeof head + (Size)(head.n[0] + head.n[1]) * each;
    if (!AllocSizeIsValid(bytes))
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("%s: one parallel worker has " INT64_FORMAT
                               " rows of a group, expected less than 1 GB of scores",
                               name_of(state), head.n[0] + head.n[1]),
                        errhint("SET max_parallel_workers_per_gather = 0")));
    bytea *image = palloc(bytes);
    SET_VARSIZE(image, bytes);
    char *at = VARDATA(image);
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (int i = 0; i < 2; i++) {
        Size size = (Size)head.n[i] * sizeof(uint64);
        if (size)
            memcpy(at, s->lists[i].keys, size);
        at += size;
        if (size && s->weighted)
            memcpy(at, s->lists[i].weights, size);
        at += s->weighted ? size : 0;
    }
    PG_RETURN_BYTEA_P(image);
}

static bool read_image(const bytea *image, scored_image *head) {
    Size bytes = VARSIZE_ANY_EXHDR(image);
    if (bytes < sizeof *head)
        return false;
    memcpy(head, VARDATA_ANY(image), sizeof *head);
    Size each = head->weighted ? sizeof(uint64) + sizeof(double) : sizeof(uint64);
    int64 room = (int64)((bytes - sizeof *head) / each);
    return head->kind >= 0 && head->kind < TUSK_RANKINGS && head->n[0] >= 0 &&
           head->n[0] <= room && head->n[1] == room - head->n[0] &&
           bytes == sizeof *head + (Size)room * each;
}

PG_FUNCTION_INFO_V1(tuskml_scored_deserialize);
Datum tuskml_scored_deserialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const bytea *image = PG_GETARG_BYTEA_PP(0);
    scored_image head;
    if (!read_image(image, &head))
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
                 errmsg("tuskml: %zu bytes are no scores", (size_t)VARSIZE_ANY_EXHDR(image))));
    scored_state *s = state_new(CurrentMemoryContext, (enum tusk_ranking_kind)head.kind);
    s->scored.bins = head.bins;
    s->scored.weighted = head.weighted;
    const char *at = VARDATA_ANY(image) + sizeof head;
    for (int i = 0; i < 2; i++) {
        Size size = (Size)head.n[i] * sizeof(uint64);
        tusk_scores *l = &s->scored.lists[i];
        *l = (tusk_scores){head.label[i], palloc(size), NULL, head.n[i], head.n[i]};
        memcpy(l->keys, at, size);
        at += size;
        if (head.weighted) {
            l->weights = palloc(size);
            memcpy(l->weights, at, size);
            at += size;
        }
    }
    PG_RETURN_POINTER(s);
}
