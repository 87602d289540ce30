/* Topics of a model: predict_topics, model_topics, and the terms of perplexity. A model is read
 * once and kept as long as the next rows have the same bytes. */
#include "topics.h"

#include "../models/model_value.h"

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

enum argument { A_MODEL, A_TOKENS };

void refuse_topics(const char *function, const char *sqlstate, const char *sentence) {
    const char *s = sqlstate ? sqlstate : "22023";
    ereport(ERROR, (errcode(MAKE_SQLSTATE(s[0], s[1], s[2], s[3], s[4])),
                    errmsg("%s: %s", function, sentence)));
}

/* The topics of a model value, which stay as long as its memory: the current context. False for
 * a model without topics, such as that of a group with invalid rows. */
static bool read_topics(void *value, tusk_topics *topics, const char *function) {
    char sentence[TUSK_SENTENCE];
    const char *sqlstate;
    tusk_text payload = read_payload(value, NULL);
    if (payload.data && !tusk_topics_of(payload, topics, sentence, &sqlstate))
        refuse_topics(function, sqlstate, sentence);
    return payload.data;
}

topic_site *new_topic_site(MemoryContext context) {
    topic_site *s = MemoryContextAllocZero(context, sizeof *s);
    s->model = AllocSetContextCreate(context, "tuskml topics", ALLOCSET_START_SMALL_SIZES);
    s->reader.context = s->buffer.context = context;
    return s;
}

static topic_site *site_of(FmgrInfo *called) {
    if (!called->fn_extra)
        called->fn_extra = new_topic_site(called->fn_mcxt);
    return called->fn_extra;
}

static bool same_bytes(const topic_site *s, const struct varlena *bytes) {
    return s->bytes && s->size == VARSIZE_ANY(bytes) && memcmp(s->bytes, bytes, s->size) == 0;
}

bool is_model_of(const topic_site *s, Datum model) {
    return same_bytes(s, telling_bytes(model));
}

bool expect_model(topic_site *s, Datum model, const char *function) {
    struct varlena *bytes = telling_bytes(model);
    if (same_bytes(s, bytes))
        return true;
    s->bytes = NULL;
    MemoryContextReset(s->model);
    MemoryContext before = MemoryContextSwitchTo(s->model);
    Size size = VARSIZE_ANY(bytes);
    void *copy = MemoryContextAllocHuge(s->model, size);
    memcpy(copy, bytes, size);
    if (!read_topics(copy, &s->topics, function)) {
        MemoryContextSwitchTo(before);
        return false;
    }
    void *room = MemoryContextAllocHuge(s->model, tusk_inference_room(&s->topics));
    s->by = tusk_inference_in(room, &s->topics);
    MemoryContextSwitchTo(before);
    s->bytes = copy;
    s->size = size;
    return true;
}

bool takes_words(FunctionCallInfo fcinfo, const topic_site *s, int at, const char *function) {
    Oid type = get_fn_expr_argtype(fcinfo->flinfo, at);
    bool by_word = is_array_of_text(type);
    if (!by_word && (type == ANYARRAYOID || OidIsValid(get_element_type(type))))
        refuse_topics(function, "42804", TUSK_TAKES_TOKENS);
    if (by_word != !!s->topics.offset)
        refuse_topics(function, NULL, by_word ? TUSK_IDS_NOT_WORDS : TUSK_WORDS_NOT_IDS);
    return by_word;
}

bool count_row(FunctionCallInfo fcinfo, topic_site *s, int at, const char *function,
               tusk_word_counts *counts) {
    Datum tokens = PG_GETARG_DATUM(at);
    if (takes_words(fcinfo, s, at, function)) {
        tusk_document d = read_document(&s->reader, tokens, function);
        *counts = tusk_count_document(&s->by, d.words, d.n, d.room);
        return true;
    }
    feature_row row = read_sparse(tokens, &s->buffer, function);
    if (row.null)
        return false;
    tusk_sparse_row ids = {.ids = row.index,
                           .values = row.values,
                           .n_ids = (uint64)row.n_index,
                           .n_values = (uint64)row.n,
                           .wide = true};
    void *room = MemoryContextAllocHuge(CurrentMemoryContext, tusk_words_room(ids.n_ids));
    char sentence[TUSK_SENTENCE];
    if (!tusk_count_ids(&s->by, &ids, row.f64, room, counts, sentence))
        refuse_topics(function, NULL, sentence);
    return true;
}

static ArrayType *new_list(int n) {
    Size size = ARR_OVERHEAD_NONULLS(1) + (Size)n * sizeof(double);
    ArrayType *list = palloc0(size);
    SET_VARSIZE(list, size);
    list->ndim = 1;
    list->elemtype = FLOAT8OID;
    ARR_DIMS(list)[0] = n;
    ARR_LBOUND(list)[0] = 1;
    return list;
}

PG_FUNCTION_INFO_V1(tuskml_predict_topics);
Datum tuskml_predict_topics(PG_FUNCTION_ARGS) {
    topic_site *s = site_of(fcinfo->flinfo);
    tusk_word_counts counts;
    if (!expect_model(s, PG_GETARG_DATUM(A_MODEL), "predict_topics") ||
        !count_row(fcinfo, s, A_TOKENS, "predict_topics", &counts) || tusk_is_strange(&counts))
        PG_RETURN_NULL();
    ArrayType *list = new_list((int)s->topics.n_topics);
    tusk_infer_topics(&s->by, &counts, (double *)ARR_DATA_PTR(list));
    PG_RETURN_ARRAYTYPE_P(list);
}

/* The transition of perplexity: the log probability and the number of tokens so far. */
PG_FUNCTION_INFO_V1(tuskml_perplexity_add);
Datum tuskml_perplexity_add(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    ArrayType *sums = PG_GETARG_ARRAYTYPE_P(0);
    if (PG_ARGISNULL(1 + A_MODEL) || PG_ARGISNULL(1 + A_TOKENS))
        PG_RETURN_ARRAYTYPE_P(sums);
    topic_site *s = site_of(fcinfo->flinfo);
    tusk_word_counts counts;
    if (!expect_model(s, PG_GETARG_DATUM(1 + A_MODEL), "perplexity") ||
        !count_row(fcinfo, s, 1 + A_TOKENS, "perplexity", &counts))
        PG_RETURN_ARRAYTYPE_P(sums);
    double log_likelihood, tokens;
    tusk_complete_document(&s->by, &counts, &log_likelihood, &tokens);
    ArrayType *more = new_list(2);
    ((double *)ARR_DATA_PTR(more))[0] = ((double *)ARR_DATA_PTR(sums))[0] + log_likelihood;
    ((double *)ARR_DATA_PTR(more))[1] = ((double *)ARR_DATA_PTR(sums))[1] + tokens;
    PG_RETURN_ARRAYTYPE_P(more);
}

/* --- the words of topics --- */

static text *term_text(const tusk_topics *t, uint32 id) {
    char number[16];
    tusk_text term = tusk_topic_term(t, id, number);
    char *here = pg_any_to_server(term.data, (int)term.length, PG_UTF8);
    Size length = here == term.data ? term.length : strlen(here);
    return cstring_to_text_with_len(here, (int)length);
}

/* A store for the rows of a function that returns a set, and their type. */
static Tuplestorestate *rows_of(FunctionCallInfo fcinfo, TupleDesc *row) {
    ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;
    if (!result || !IsA(result, ReturnSetInfo) || !(result->allowedModes & SFRM_Materialize))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("model_topics returns a set, expected it in FROM")));
    MemoryContext before = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
    if (get_call_result_type(fcinfo, NULL, row) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "model_topics returns rows");
    Tuplestorestate *store = tuplestore_begin_heap(true, false, work_mem);
    result->returnMode = SFRM_Materialize;
    result->setResult = store;
    result->setDesc = *row;
    MemoryContextSwitchTo(before);
    return store;
}

PG_FUNCTION_INFO_V1(tuskml_model_topics);
Datum tuskml_model_topics(PG_FUNCTION_ARGS) {
    TupleDesc row;
    Tuplestorestate *store = rows_of(fcinfo, &row);
    if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
        return (Datum)0;
    tusk_topics t;
    char sentence[TUSK_SENTENCE];
    if (!read_topics(PG_DETOAST_DATUM(PG_GETARG_DATUM(0)), &t, "model_topics"))
        return (Datum)0;
    uint32 n = tusk_top_room(&t, PG_GETARG_INT32(1), sentence);
    if (!n)
        refuse_topics("model_topics", NULL, sentence);
    tusk_top_word *top =
        MemoryContextAllocHuge(CurrentMemoryContext, (Size)n * t.n_topics * sizeof *top);
    uint32 found = tusk_top_words(&t, n, top);
    for (uint32 k = 0; k < t.n_topics; k++) {
        CHECK_FOR_INTERRUPTS();
        for (uint32 i = 0; i < found; i++) {
            const tusk_top_word *word = top + (Size)k * n + i;
            Datum values[] = {Int32GetDatum((int32)k + 1), Int32GetDatum((int32)i + 1),
                              PointerGetDatum(term_text(&t, word->id)),
                              Float8GetDatum(word->probability)};
            bool nulls[4] = {false};
            tuplestore_putvalues(store, row, values, nulls);
        }
    }
    return (Datum)0;
}
