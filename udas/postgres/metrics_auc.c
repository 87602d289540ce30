/* auc: its state keeps the scores of all rows. */
#include "metrics.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "../scalars/auc.h"

/* What parallel workers send: this, and the keys of both lists. */
typedef struct auc_image {
    double label[2];
    int64 n[2];
} auc_image;

static void *grow(void *memory, size_t bytes, void *context) {
    return memory ? repalloc_huge(memory, bytes) : MemoryContextAllocHuge(context, bytes);
}

static tusk_auc *state_at(FunctionCallInfo fcinfo, int argument) {
    return PG_ARGISNULL(argument) ? NULL : (tusk_auc *)PG_GETARG_POINTER(argument);
}

static Datum give_state(FunctionCallInfo fcinfo, tusk_auc *s) {
    if (!s)
        PG_RETURN_NULL();
    PG_RETURN_POINTER(s);
}

PG_FUNCTION_INFO_V1(tuskml_auc);
Datum tuskml_auc(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    tusk_auc *s = state_at(fcinfo, A_STATE);
    double label, score;
    if (!read_row(fcinfo, &label, &score))
        return give_state(fcinfo, s);
    if (!s)
        s = MemoryContextAllocZero(context, sizeof *s);
    char sentence[TUSK_SENTENCE];
    if (!tusk_auc_take(s, label, score, (tusk_grow){grow, context}, sentence))
        refuse_row("auc", sentence);
    PG_RETURN_POINTER(s);
}

static void breathe(void) {
    CHECK_FOR_INTERRUPTS();
}

PG_FUNCTION_INFO_V1(tuskml_auc_give);
Datum tuskml_auc_give(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const tusk_auc *s = state_at(fcinfo, A_STATE);
    if (!s || !tusk_auc_known(s))
        PG_RETURN_NULL();
    uint64 *work = MemoryContextAllocHuge(CurrentMemoryContext, tusk_auc_work(s));
    double auc = tusk_auc_give(s, work, breathe);
    pfree(work);
    PG_RETURN_FLOAT8(auc);
}

PG_FUNCTION_INFO_V1(tuskml_auc_combine);
Datum tuskml_auc_combine(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    tusk_auc *target = state_at(fcinfo, 0);
    const tusk_auc *source = state_at(fcinfo, 1);
    if (!source)
        return give_state(fcinfo, target);
    if (!target)
        target = MemoryContextAllocZero(context, sizeof *target);
    char sentence[TUSK_SENTENCE];
    if (!tusk_auc_merge(target, source, (tusk_grow){grow, context}, sentence))
        refuse_row("auc", sentence);
    PG_RETURN_POINTER(target);
}

PG_FUNCTION_INFO_V1(tuskml_auc_serialize);
Datum tuskml_auc_serialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const tusk_auc *s = state_at(fcinfo, 0);
    auc_image head = {{s->lists[0].label, s->lists[1].label}, {s->lists[0].n, s->lists[1].n}};
    Size bytes = VARHDRSZ + sizeof head + (Size)(head.n[0] + head.n[1]) * sizeof(uint64);
    if (!AllocSizeIsValid(bytes))
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("auc: one parallel worker has " INT64_FORMAT
                               " rows of a group, expected less than 1 GB of scores",
                               head.n[0] + head.n[1]),
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
    }
    PG_RETURN_BYTEA_P(image);
}

static bool read_image(const bytea *image, auc_image *head) {
    Size bytes = VARSIZE_ANY_EXHDR(image);
    if (bytes < sizeof *head)
        return false;
    memcpy(head, VARDATA_ANY(image), sizeof *head);
    int64 room = (int64)((bytes - sizeof *head) / sizeof(uint64));
    return head->n[0] >= 0 && head->n[0] <= room && head->n[1] == room - head->n[0] &&
           bytes == sizeof *head + (Size)room * sizeof(uint64);
}

PG_FUNCTION_INFO_V1(tuskml_auc_deserialize);
Datum tuskml_auc_deserialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const bytea *image = PG_GETARG_BYTEA_PP(0);
    auc_image head;
    if (!read_image(image, &head))
        ereport(ERROR, (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
                        errmsg("auc: %zu bytes are no state", (size_t)VARSIZE_ANY_EXHDR(image))));
    tusk_auc *s = palloc0(sizeof *s);
    const char *at = VARDATA_ANY(image) + sizeof head;
    for (int i = 0; i < 2; i++) {
        Size size = (Size)head.n[i] * sizeof(uint64);
        tusk_scores scores = {head.label[i], palloc(size), head.n[i], head.n[i]};
        memcpy(scores.keys, at, size);
        s->lists[i] = scores;
        at += size;
    }
    PG_RETURN_POINTER(s);
}
