/* Functions behind the macro coherence: reduce each document to the best words of topics, and
 * compute a number from a list of reduced documents. Each begins with the CRC of its model. */
#include "../../scalars/topics/coherence.h"

#include <stdlib.h>
#include <string.h>

#include "../features/named.h"
#include "documents.h"

enum argument { A_MODEL, A_TOKENS, A_MEASURE, A_WORDS };

#define NAME "coherence"

/* The best words of the topics of one model. */
typedef struct best_words {
    enum tusk_coherence measure;
    int64_t asked;        /* words per topic */
    tusk_best_words best; /* word is NULL: there are none yet */
    uint8_t *mark;        /* by id */
} best_words;

static void free_best(best_words *b) {
    free(b->best.word);
    free(b->mark);
    *b = (best_words){0};
}

/* other: whether the model differs from that of the previous row. */
static bool find_best(const documents *d, tusk_text measure, int64_t words, bool other,
                      best_words *b) {
    char sentence[TUSK_SENTENCE];
    enum tusk_coherence asked;
    if (!tusk_coherence_of(measure, &asked, sentence))
        return refuse_topics(d, sentence);
    b->measure = asked;
    if (!other && b->best.word && b->asked == words)
        return true;
    free_best(b);
    b->measure = asked;
    b->asked = words;
    if (!(b->best.n = tusk_coherence_words(&d->topics, words, sentence)))
        return refuse_topics(d, sentence);
    b->best.word = malloc((size_t)b->best.n * d->topics.n_topics * sizeof *b->best.word);
    b->mark = calloc((size_t)d->topics.n_words + 1, 1);
    if (!b->best.word || !b->mark)
        return refuse_topics(d, "out of memory");
    b->best.found = tusk_top_words(&d->topics, b->best.n, b->best.word);
    tusk_mark_best(&d->topics, &b->best, b->mark);
    return true;
}

static uint32_t crc_of(const duckdb_string_t *payload) {
    uint32_t crc;
    memcpy(&crc, text_of_string(payload).data + 12, sizeof crc);
    return crc;
}

/* Writes the reduced document of a row; NULL if it has no token. */
static bool reduce_row(documents *d, const best_words *b, idx_t row, duckdb_vector result) {
    if (d->by_word != !!d->topics.offset)
        return refuse_topics(d, d->by_word ? TUSK_IDS_NOT_WORDS : TUSK_WORDS_NOT_IDS);
    if (!d->by_word && b->measure == TUSK_C_V)
        return refuse_topics(d, TUSK_NEEDS_ORDER);
    void *room = NULL;
    tusk_word_counts counts = {0};
    tusk_document document = {0};
    if (d->by_word)
        document = document_at(&d->words, row);
    else if (!count_row(d, row, &room, &counts)) {
        free(room);
        return false;
    }
    uint64_t n = d->by_word ? document.n : counts.n;
    int32_t *out = malloc((3 + 2 * n) * sizeof *out);
    uint64_t length = 0;
    if (out) {
        uint32_t crc = crc_of((const duckdb_string_t *)d->payloads.data + row);
        memcpy(out, &crc, sizeof crc);
        length = d->by_word ? tusk_reduce_document(&d->by, b->mark, document.words, n, out + 1)
                            : tusk_reduce_ids(&d->by, b->mark, &counts, out + 1);
        if (length)
            duckdb_vector_assign_string_element_len(result, row, (const char *)out,
                                                    (length + 1) * sizeof *out);
        else
            set_null(result, row);
    }
    free(room);
    free(out);
    return out || refuse_topics(d, "out of memory");
}

static void reduce(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    documents d = {.info = info,
                   .name = NAME,
                   .n = duckdb_data_chunk_get_size(chunk),
                   .payloads = chunk_column(chunk, A_MODEL)};
    column measure = chunk_column(chunk, A_MEASURE), words = chunk_column(chunk, A_WORDS);
    best_words best = {0};
    bool done = read_documents(&d, duckdb_data_chunk_get_vector(chunk, A_TOKENS));
    for (idx_t row = 0; done && row < d.n; row++) {
        if (!has_document(&d, row) || !is_valid(&measure, row) || !is_valid(&words, row)) {
            set_null(result, row);
            continue;
        }
        bool other = false;
        done = read_topics(&d, row, &other) &&
               find_best(&d, text_of_string((const duckdb_string_t *)measure.data + row),
                         ((const int64_t *)words.data)[row], other, &best) &&
               reduce_row(&d, &best, row, result);
    }
    free_best(&best);
    free_documents(&d);
}

/* Concatenates the reduced documents of a row into one array, to be freed. */
static int32_t *joined(const documents *d, const best_words *b, const list_column *l, idx_t row,
                       uint64_t *length) {
    uint32_t crc = crc_of((const duckdb_string_t *)d->payloads.data + row);
    duckdb_list_entry e = list_entry(l, row);
    const duckdb_string_t *items = (const duckdb_string_t *)l->child.data + e.offset;
    uint64_t bytes = sizeof(int32_t);
    for (idx_t i = 0; i < e.length; i++)
        bytes += is_valid(&l->child, e.offset + i) ? text_of_string(items + i).length : 0;
    char *all = malloc(bytes), *at = all;
    bool same = true;
    for (idx_t i = 0; all && same && i < e.length; i++) {
        if (!is_valid(&l->child, e.offset + i))
            continue;
        tusk_text item = text_of_string(items + i);
        same =
            item.length > sizeof crc && memcmp(item.data, &crc, sizeof crc) == 0 &&
            tusk_is_reduced(&d->topics, b->mark, item.data + sizeof crc, item.length - sizeof crc);
        if (!same)
            break;
        memcpy(at, item.data + sizeof crc, item.length - sizeof crc);
        at += item.length - sizeof crc;
    }
    *length = (uint64_t)(at - all) / sizeof(int32_t);
    if (all && same)
        return (int32_t *)all;
    free(all);
    refuse_topics(d, all ? TUSK_OTHER_MODEL : "out of memory");
    return NULL;
}

static bool judge_row(documents *d, const best_words *b, const list_column *l, idx_t row,
                      double *out) {
    uint64_t length;
    int32_t *all = joined(d, b, l, row, &length);
    if (!all)
        return false;
    bool done = tusk_coherence(&d->topics, &b->best, all, length, b->measure, out);
    free(all);
    return done || refuse_topics(d, "out of memory");
}

static bool is_list_of_bytes(duckdb_vector v) {
    char type[16];
    write_type(v, type, sizeof type);
    return strcmp(type, "BLOB[]") == 0;
}

static void judge(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    documents d = {.info = info,
                   .name = NAME,
                   .n = duckdb_data_chunk_get_size(chunk),
                   .payloads = chunk_column(chunk, A_MODEL)};
    duckdb_vector given = duckdb_data_chunk_get_vector(chunk, A_TOKENS);
    if (!is_list_of_bytes(given)) {
        refuse_topics(&d, "expected reduced documents");
        return;
    }
    list_column reduced = list_column_of(given);
    column measure = chunk_column(chunk, A_MEASURE), words = chunk_column(chunk, A_WORDS);
    double *out = duckdb_vector_get_data(result);
    best_words best = {0};
    bool done = true;
    for (idx_t row = 0; done && row < d.n; row++) {
        if (!is_valid(&d.payloads, row) || !is_valid(&reduced.self, row) ||
            !is_valid(&measure, row) || !is_valid(&words, row)) {
            set_null(result, row);
            continue;
        }
        bool other = false;
        out[row] = 0;
        done = read_topics(&d, row, &other) &&
               find_best(&d, text_of_string((const duckdb_string_t *)measure.data + row),
                         ((const int64_t *)words.data)[row], other, &best) &&
               judge_row(&d, &best, &reduced, row, out + row);
        if (done && out[row] != out[row])
            set_null(result, row);
    }
    free_best(&best);
    free_documents(&d);
}

bool register_coherence(duckdb_connection connection) {
    static const duckdb_type tokens[] = {DUCKDB_TYPE_BLOB, DUCKDB_TYPE_ANY, DUCKDB_TYPE_VARCHAR,
                                         DUCKDB_TYPE_BIGINT};
    return add_function(connection, "_tusk_reduce_document", tokens, 4,
                        duckdb_create_logical_type(DUCKDB_TYPE_BLOB), reduce, NULL) &&
           add_function(connection, "_tusk_coherence", tokens, 4,
                        duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE), judge, NULL);
}
