/* recommend and similar_items: the best items as numbers, which SQL turns into rows. */
#include "../backend.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/memutils.h"

#include "../../scalars/recommending/recommend.h"
#include "../stores.h"

enum argument { A_PAYLOAD, A_ID, A_N, A_EXCLUDE };

static void breathe(void) {
    CHECK_FOR_INTERRUPTS();
}

static void refuse(const tusk_scorer *s, bool similar, const char *sentence) {
    const char *state = s->sqlstate ? s->sqlstate : "22023";
    ereport(ERROR, (errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
                    errmsg("%s: %s", similar ? "similar_items" : "recommend", sentence)));
}

/* Numbers without NULLs. */
static double *read_numbers(ArrayType *given, uint64 *n) {
    Datum *items;
    bool *nulls;
    int found;
    deconstruct_array(given, FLOAT8OID, sizeof(double), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &items,
                      &nulls, &found);
    double *numbers = palloc((Size)(found + 1) * sizeof *numbers);
    *n = 0;
    for (int i = 0; i < found; i++)
        if (!nulls[i])
            numbers[(*n)++] = DatumGetFloat8(items[i]);
    return numbers;
}

/* The basis, and then an item and its score in turn. */
static ArrayType *numbers_of(const tusk_ranked_item *items, uint64 n, enum tusk_basis basis) {
    Size size = ARR_OVERHEAD_NONULLS(1) + (1 + 2 * n) * sizeof(double);
    if (size > MaxAllocSize)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("the answer has too many items, give a smaller n")));
    ArrayType *list = palloc0(size);
    SET_VARSIZE(list, size);
    list->ndim = 1;
    list->elemtype = FLOAT8OID;
    ARR_DIMS(list)[0] = (int)(1 + 2 * n);
    ARR_LBOUND(list)[0] = 1;
    double *to = (double *)ARR_DATA_PTR(list);
    *to++ = basis;
    for (uint64 i = 0; i < n; i++) {
        *to++ = (double)items[i].item;
        *to++ = items[i].score;
    }
    return list;
}

static void forget(void *scorer) {
    tusk_forget_model(scorer);
}

static Datum recommend(FunctionCallInfo fcinfo, bool similar) {
    bytea *bytes = PG_GETARG_BYTEA_PP(A_PAYLOAD);
    tusk_text payload = {VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)};
    tusk_wanted w = {.similar = similar, .id = PG_GETARG_FLOAT8(A_ID), .n = PG_GETARG_INT64(A_N)};
    w.exclude = read_numbers(PG_GETARG_ARRAYTYPE_P(A_EXCLUDE), &w.n_exclude);
    tusk_stores stores = backend_stores();
    char sentence[TUSK_SENTENCE];
    tusk_scorer *s = palloc0(sizeof *s);
    if (!tusk_read_model(payload, &stores, TUSK_PREDICT, s, sentence))
        refuse(s, similar, sentence);
    /* An error, or a cancelled statement, also releases the model's file. */
    MemoryContextCallback *end = palloc0(sizeof *end);
    *end = (MemoryContextCallback){.func = forget, .arg = s};
    MemoryContextRegisterResetCallback(CurrentMemoryContext, end);
    bool factors = s->task == TUSK_FACTORIZATION;
    uint64 most = factors ? tusk_most_items(s, &w) : 0;
    tusk_best best = {.breathe = breathe};
    best.work = MemoryContextAllocHuge(CurrentMemoryContext,
                                       (factors ? tusk_recommend_work(s) : 0) + sizeof(double));
    best.items = MemoryContextAllocHuge(CurrentMemoryContext, (most + 1) * sizeof *best.items);
    if (!tusk_recommend(s, &w, &best, sentence))
        refuse(s, similar, sentence);
    ArrayType *found = numbers_of(best.items, best.n, best.basis);
    tusk_forget_model(s);
    PG_RETURN_ARRAYTYPE_P(found);
}

PG_FUNCTION_INFO_V1(tuskml_recommend);
Datum tuskml_recommend(PG_FUNCTION_ARGS) {
    return recommend(fcinfo, false);
}

PG_FUNCTION_INFO_V1(tuskml_similar_items);
Datum tuskml_similar_items(PG_FUNCTION_ARGS) {
    return recommend(fcinfo, true);
}
