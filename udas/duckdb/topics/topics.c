/* Topics of a model's payload: predict_topics, the words of topics, and the terms of
   perplexity. */
#include "documents.h"

#include <stdlib.h>

#include "../features/named.h"

enum answer_kind { PREDICTS, COMPLETES };

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
    bool done = true, other;
    for (idx_t row = 0; done && row < d->n; row++) {
        if (!has_document(d, row)) {
            set_null(result, row);
            continue;
        }
        done = read_topics(d, row, &other) && count_row(d, row, &room, &counts);
        if (!done)
            break;
        if (kind == PREDICTS && tusk_is_strange(&counts)) {
            set_null(result, row);
            continue;
        }
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
    free_documents(&d);
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

static void take_models(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
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

bool register_topics(duckdb_connection connection) {
    static enum answer_kind kinds[] = {PREDICTS, COMPLETES};
    static const duckdb_type tokens[] = {DUCKDB_TYPE_BLOB, DUCKDB_TYPE_ANY};
    static const duckdb_type words[] = {DUCKDB_TYPE_BLOB, DUCKDB_TYPE_BIGINT};
    return add_function(connection, "_tusk_predict_topics", tokens, 2,
                        make_list_type(DUCKDB_TYPE_DOUBLE), take_chunk, kinds) &&
           add_function(connection, "_tusk_complete_document", tokens, 2,
                        make_list_type(DUCKDB_TYPE_DOUBLE), take_chunk, kinds + 1) &&
           add_function(connection, "_tusk_topic_words", words, 2, words_type(), take_models,
                        NULL);
}
