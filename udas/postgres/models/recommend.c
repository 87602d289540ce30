/* recommend, similar_items and recommend_by_items: the best items as texts, which SQL turns into
 * rows. */
#include "../backend.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "../../scalars/recommending/recommend.h"
#include "../stores.h"

enum argument { A_PAYLOAD, A_ID, A_N, A_EXCLUDE, A_NUMBERS, A_RATINGS, A_OPTIONS };

static void breathe(void) {
    CHECK_FOR_INTERRUPTS();
}

static void refuse(const tusk_scorer *s, enum tusk_asked asked, const char *sentence) {
    const char *state = s->sqlstate ? s->sqlstate : "22023";
    ereport(ERROR, (errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
                    errmsg("%s: %s", TUSK_ASKED_NAMES[asked], sentence)));
}

static tusk_text text_of(Datum given) {
    text *t = DatumGetTextPP(given);
    return (tusk_text){VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t)};
}

/* Texts without NULLs. */
static tusk_text *read_texts(ArrayType *given, uint64 *n) {
    Datum *items;
    bool *nulls;
    int found;
    deconstruct_array(given, TEXTOID, -1, false, TYPALIGN_INT, &items, &nulls, &found);
    tusk_text *texts = palloc((Size)(found + 1) * sizeof *texts);
    *n = 0;
    for (int i = 0; i < found; i++)
        if (!nulls[i])
            texts[(*n)++] = text_of(items[i]);
    return texts;
}

/* Items and their ratings, without NULLs. */
static void read_rated(ArrayType *items, ArrayType *ratings, tusk_wanted *w) {
    Datum *texts, *numbers;
    bool *no_text, *no_number;
    int n, n_ratings;
    char sentence[TUSK_SENTENCE];
    deconstruct_array(items, TEXTOID, -1, false, TYPALIGN_INT, &texts, &no_text, &n);
    deconstruct_array(ratings, FLOAT8OID, sizeof(double), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
                      &numbers, &no_number, &n_ratings);
    if (n != n_ratings) {
        snprintf(sentence, sizeof sentence, "%d items and %d ratings, expected as many of both", n,
                 n_ratings);
        refuse(&(tusk_scorer){0}, w->asked, sentence);
    }
    tusk_text *rated = palloc((Size)(n + 1) * sizeof *rated);
    double *given = palloc((Size)(n + 1) * sizeof *given);
    for (int i = 0; i < n; i++) {
        if (no_text[i] || no_number[i])
            continue;
        rated[w->n_rated] = text_of(texts[i]);
        given[w->n_rated++] = DatumGetFloat8(numbers[i]);
    }
    w->rated = rated;
    w->ratings = given;
}

static Datum number_text(double x) {
    return CStringGetTextDatum(psprintf("%.17g", x));
}

/* The basis, and then an item and its score in turn. */
static ArrayType *texts_of(const tusk_scorer *s, const tusk_best *best) {
    uint64 n = 1 + 2 * best->n;
    if (n > MaxAllocSize / sizeof(Datum))
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("the answer has too many items, give a smaller n")));
    Datum *texts = palloc(n * sizeof *texts);
    texts[0] = CStringGetTextDatum(TUSK_BASIS_NAMES[best->basis]);
    for (uint64 i = 0; i < best->n; i++) {
        char room[TUSK_ID_TEXT];
        tusk_text item = tusk_item_text(s, best->items[i].item, room);
        texts[1 + 2 * i] = PointerGetDatum(cstring_to_text_with_len(item.data, (int)item.length));
        texts[2 + 2 * i] = number_text(best->items[i].score);
    }
    return construct_array(texts, (int)n, TEXTOID, -1, false, TYPALIGN_INT);
}

static void forget(void *scorer) {
    tusk_forget_model(scorer);
}

static Datum recommend(bytea *bytes, tusk_wanted *w) {
    tusk_text payload = {VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)};
    tusk_stores stores = backend_stores();
    char sentence[TUSK_SENTENCE];
    tusk_scorer *s = palloc0(sizeof *s);
    if (!tusk_read_model(payload, &stores, TUSK_PREDICT, s, sentence))
        refuse(s, w->asked, sentence);
    /* An error, or a cancelled statement, also releases the model's file. */
    MemoryContextCallback *end = palloc0(sizeof *end);
    *end = (MemoryContextCallback){.func = forget, .arg = s};
    MemoryContextRegisterResetCallback(CurrentMemoryContext, end);
    bool factors = s->task == TUSK_FACTORIZATION;
    uint64 most = factors ? tusk_most_items(s, w) : 0;
    tusk_best best = {.breathe = breathe};
    best.work = MemoryContextAllocHuge(CurrentMemoryContext,
                                       (factors ? tusk_recommend_work(s, w) : 0) + sizeof(double));
    best.items = MemoryContextAllocHuge(CurrentMemoryContext, (most + 1) * sizeof *best.items);
    if (!tusk_recommend(s, w, &best, sentence))
        refuse(s, w->asked, sentence);
    ArrayType *found = texts_of(s, &best);
    tusk_forget_model(s);
    PG_RETURN_ARRAYTYPE_P(found);
}

static Datum recommend_for(FunctionCallInfo fcinfo, enum tusk_asked asked) {
    tusk_wanted w = {.asked = asked,
                     .id = text_of(PG_GETARG_DATUM(A_ID)),
                     .n = PG_GETARG_INT64(A_N),
                     .numbers = PG_GETARG_BOOL(A_NUMBERS)};
    w.exclude = read_texts(PG_GETARG_ARRAYTYPE_P(A_EXCLUDE), &w.n_exclude);
    return recommend(PG_GETARG_BYTEA_PP(A_PAYLOAD), &w);
}

PG_FUNCTION_INFO_V1(tuskml_recommend);
Datum tuskml_recommend(PG_FUNCTION_ARGS) {
    return recommend_for(fcinfo, TUSK_FOR_USER);
}

PG_FUNCTION_INFO_V1(tuskml_similar_items);
Datum tuskml_similar_items(PG_FUNCTION_ARGS) {
    return recommend_for(fcinfo, TUSK_FOR_ITEM);
}

PG_FUNCTION_INFO_V1(tuskml_recommend_by_items);
Datum tuskml_recommend_by_items(PG_FUNCTION_ARGS) {
    tusk_wanted w = {.asked = TUSK_FOR_RATINGS,
                     .n = PG_GETARG_INT64(A_N),
                     .numbers = PG_GETARG_BOOL(A_NUMBERS),
                     .options = text_of(PG_GETARG_DATUM(A_OPTIONS))};
    w.exclude = read_texts(PG_GETARG_ARRAYTYPE_P(A_EXCLUDE), &w.n_exclude);
    read_rated(PG_GETARG_ARRAYTYPE_P(A_ID), PG_GETARG_ARRAYTYPE_P(A_RATINGS), &w);
    return recommend(PG_GETARG_BYTEA_PP(A_PAYLOAD), &w);
}
