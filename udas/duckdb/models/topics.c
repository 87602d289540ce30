/* Topics of a model's payload: predict_topics, the words of topics, and what perplexity sums. */
#include "../../scalars/topics/topics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../any_type.h"
#include "../features/named.h"
#include "../features/words.h"
#include "model_column.h"

enum answer_kind { PREDICTS, COMPLETES };

/* One chunk of documents. */
typedef struct documents {
    duckdb_function_info info;
    const char *name; /* of the function */
    idx_t n;
    column payloads;
    bool by_word;
    document_column words;
    feature_column ids;
    scratch kept;
    duckdb_string_t read; /* the payload that was read last */
    bool has_read;
    tusk_topics topics;
    tusk_inference by;
    void *room; /* of the inference */
} documents;

static bool refuse_topics(const documents *d, const char *sentence) {
    char text[REFUSAL_ROOM + 32];
    snprintf(text, sizeof text, "%s: %s", d->name, sentence);
    duckdb_scalar_function_set_error(d->info, text);
    return false;
}

static bool read_documents(documents *d, duckdb_vector v) {
    d->by_word = is_list_of_text(v);
    if (d->by_word ? documents_of_any(v, d->n, &d->kept, &d->words)
                   : features_of_any(v, d->n, &d->kept, &d->ids) &&
                         (d->ids.type.sparse || is_null_type(v)))
        return true;
    return refuse_topics(d, d->kept.out_of_memory ? "out of memory" : TUSK_TAKES_TOKENS);
}

static bool same_payload(const documents *d, const duckdb_string_t *payload) {
    return d->has_read && memcmp(&d->read, payload, sizeof *payload) == 0;
}

/* Reads the model of a row, unless it is that of the row before. */
static bool read_topics(documents *d, idx_t row) {
    const duckdb_string_t *payload = (const duckdb_string_t *)d->payloads.data + row;
    if (same_payload(d, payload))
        return true;
    char sentence[TUSK_SENTENCE];
    const char *sqlstate;
    d->has_read = false;
    if (!tusk_topics_of(text_of_string(payload), &d->topics, sentence, &sqlstate))
        return refuse_topics(d, sentence);
    free(d->room);
    d->room = malloc(tusk_inference_room(&d->topics));
    if (!d->room)
        return refuse_topics(d, "out of memory");
    d->by = tusk_inference_in(d->room, &d->topics);
    d->read = *payload;
    return d->has_read = true;
}

static bool usable(const documents *d, idx_t row) {
    if (!is_valid(&d->payloads, row))
        return false;
    return d->by_word ? is_valid(&d->words.lists.self, row) : features_valid(&d->ids, row);
}

static tusk_sparse_row ids_at(const documents *d, idx_t row) {
    const feature_column *f = &d->ids;
    duckdb_list_entry i = list_entry(&f->indices, row), v = list_entry(&f->values, row);
    return (tusk_sparse_row){
        .ids = (const char *)f->indices.child.data + i.offset * (f->type.wide ? 8 : 4),
        .values = (const char *)f->values.child.data + v.offset * (f->type.f64 ? 8 : 4),
        .n_ids = i.length,
        .n_values = v.length,
        .wide = f->type.wide};
}

/* Counts a row's words. *room grows with the documents that are ids. */
static bool count_row(documents *d, idx_t row, void **room, tusk_word_counts *counts) {
    if (d->by_word != !!d->topics.offset)
        return refuse_topics(d, d->by_word ? TUSK_IDS_NOT_WORDS : TUSK_WORDS_NOT_IDS);
    if (d->by_word) {
        tusk_document document = document_at(&d->words, row);
        *counts = tusk_count_document(&d->by, document.words, document.n, document.room);
        return true;
    }
    tusk_sparse_row ids = ids_at(d, row);
    free(*room);
    *room = malloc(tusk_words_room(ids.n_ids));
    char sentence[TUSK_SENTENCE] = "out of memory";
    return (*room &&
            tusk_count_ids(&d->by, &ids, d->ids.type.f64, *room, counts, sentence)) ||
           refuse_topics(d, sentence);
}

/* Appends a list of n numbers for a row. */
static double *append_list(duckdb_vector result, idx_t row, idx_t n) {
    idx_t at = duckdb_list_vector_get_size(result);
    duckdb_list_vector_reserve(result, at + n);
    duckdb_list_vector_set_size(result, at + n);
    ((duckdb_list_entry *)duckdb_vector_get_data(result))[row] = (duckdb_list_entry){at, n};
    return (double *)duckdb_vector_get_data(duckdb_list_vector_get_child(result)) + at;
}

static void answer_documents(documents *d, enum answer_kind kind, duckdb_vector result) {
    void *room = NULL;
    tusk_word_counts counts;
    bool done = true;
    for (idx_t row = 0; done && row < d->n; row++) {
        if (!usable(d, row)) {
            set_null(result, row);
            continue;
        }
        done = read_topics(d, row) && count_row(d, row, &room, &counts);
        if (!done)
            break;
        double *out = append_list(result, row, kind == PREDICTS ? d->topics.n_topics : 2);
        if (kind == PREDICTS)
            tusk_infer_topics(&d->by, &counts, out);
        else
            tusk_complete_document(&d->by, &counts, out, out + 1);
    }
    free(room);
}

static void take_chunk(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    enum answer_kind kind = *(const enum answer_kind *)duckdb_scalar_function_get_extra_info(info);
    documents d = {.info = info,
                   .name = kind == PREDICTS ? "predict_topics" : "perplexity",
                   .n = duckdb_data_chunk_get_size(chunk),
                   .payloads = chunk_column(chunk, 0)};
    if (read_documents(&d, duckdb_data_chunk_get_vector(chunk, 1)))
        answer_documents(&d, kind, result);
    free(d.room);
    scratch_free(&d.kept);
}

/* --- the words of topics --- */

/* Appends the words of all topics as one list. */
static void put_top_words(const tusk_topics *t, uint32_t n, tusk_top_word *top,
                          duckdb_vector result, idx_t row) {
    idx_t begin = duckdb_list_vector_get_size(result), at = begin;
    uint32_t found = tusk_top_words(t, n, top);
    duckdb_list_vector_reserve(result, begin + (idx_t)found * t->n_topics);
    duckdb_vector child = duckdb_list_vector_get_child(result), field[4];
    for (idx_t i = 0; i < 4; i++)
        field[i] = duckdb_struct_vector_get_child(child, i);
    for (uint32_t k = 0; k < t->n_topics; k++) {
        for (uint32_t i = 0; i < found; i++, at++) {
            const tusk_top_word *word = top + (uint64_t)k * n + i;
            char number[16];
            tusk_text term = tusk_topic_term(t, word->id, number);
            ((int32_t *)duckdb_vector_get_data(field[0]))[at] = (int32_t)k + 1;
            ((int32_t *)duckdb_vector_get_data(field[1]))[at] = (int32_t)i + 1;
            duckdb_vector_assign_string_element_len(field[2], at, term.data, term.length);
            ((double *)duckdb_vector_get_data(field[3]))[at] = word->probability;
        }
    }
    duckdb_list_vector_set_size(result, at);
    ((duckdb_list_entry *)duckdb_vector_get_data(result))[row] =
        (duckdb_list_entry){begin, at - begin};
}

static bool list_words(duckdb_function_info info, tusk_text payload, int64_t words,
                       duckdb_vector result, idx_t row) {
    documents d = {.info = info, .name = "model_topics"};
    char sentence[TUSK_SENTENCE];
    const char *sqlstate;
    if (!tusk_topics_of(payload, &d.topics, sentence, &sqlstate))
        return refuse_topics(&d, sentence);
    uint32_t n = tusk_top_room(&d.topics, words, sentence);
    if (!n)
        return refuse_topics(&d, sentence);
    tusk_top_word *top = malloc((size_t)n * d.topics.n_topics * sizeof *top);
    if (!top)
        return refuse_topics(&d, "out of memory");
    put_top_words(&d.topics, n, top, result, row);
    free(top);
    return true;
}

static void take_models(duckdb_function_info info, duckdb_data_chunk chunk,
                        duckdb_vector result) {
    column payloads = chunk_column(chunk, 0), words = chunk_column(chunk, 1);
    idx_t n = duckdb_data_chunk_get_size(chunk);
    for (idx_t row = 0; row < n; row++) {
        if (!is_valid(&payloads, row) || !is_valid(&words, row)) {
            set_null(result, row);
            continue;
        }
        tusk_text payload = text_of_string((const duckdb_string_t *)payloads.data + row);
        if (!list_words(info, payload, ((const int64_t *)words.data)[row], result, row))
            return;
    }
}

/* --- registration --- */

static duckdb_logical_type words_type(void) {
    static const duckdb_type TYPES[] = {DUCKDB_TYPE_INTEGER, DUCKDB_TYPE_INTEGER,
                                        DUCKDB_TYPE_VARCHAR, DUCKDB_TYPE_DOUBLE};
    const char *names[] = {"topic", "rank", "word", "probability"};
    duckdb_logical_type types[4];
    for (int i = 0; i < 4; i++)
        types[i] = duckdb_create_logical_type(TYPES[i]);
    duckdb_logical_type row = duckdb_create_struct_type(types, names, 4);
    duckdb_logical_type list = duckdb_create_list_type(row);
    duckdb_destroy_logical_type(&row);
    for (int i = 0; i < 4; i++)
        duckdb_destroy_logical_type(&types[i]);
    return list;
}

/* Takes ownership of the result's type. */
static bool add_function(duckdb_connection connection, const char *name, duckdb_type second,
                         duckdb_logical_type result, duckdb_scalar_function_t body, void *extra) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type bytes = duckdb_create_logical_type(DUCKDB_TYPE_BLOB);
    duckdb_logical_type argument = duckdb_create_logical_type(second);
    duckdb_scalar_function_set_name(f, name);
    duckdb_scalar_function_add_parameter(f, bytes);
    duckdb_scalar_function_add_parameter(f, argument);
    duckdb_scalar_function_set_return_type(f, result);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_extra_info(f, extra, NULL);
    duckdb_scalar_function_set_function(f, body);
    bool done = duckdb_register_scalar_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&bytes);
    duckdb_destroy_logical_type(&argument);
    duckdb_destroy_logical_type(&result);
    duckdb_destroy_scalar_function(&f);
    return done;
}

bool register_topics(duckdb_connection connection) {
    static enum answer_kind kinds[] = {PREDICTS, COMPLETES};
    return add_function(connection, "_tusk_predict_topics", DUCKDB_TYPE_ANY,
                        make_list_type(DUCKDB_TYPE_DOUBLE), take_chunk, kinds) &&
           add_function(connection, "_tusk_complete_document", DUCKDB_TYPE_ANY,
                        make_list_type(DUCKDB_TYPE_DOUBLE), take_chunk, kinds + 1) &&
           add_function(connection, "_tusk_topic_words", DUCKDB_TYPE_BIGINT, words_type(),
                        take_models, NULL);
}
