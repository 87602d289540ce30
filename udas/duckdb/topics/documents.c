#include "documents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../scalars/models/quoted.h"
#include "../features/named.h"
#include "../models/model_column.h"

bool refuse_topics(const documents *d, const char *sentence) {
    char text[REFUSAL_ROOM + 32];
    snprintf(text, sizeof text, "%s: %s", d->name, sentence);
    tusk_make_utf8(text);
    duckdb_scalar_function_set_error(d->info, text);
    return false;
}

bool read_documents(documents *d, duckdb_vector v) {
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

bool read_topics(documents *d, idx_t row, bool *other) {
    const duckdb_string_t *payload = (const duckdb_string_t *)d->payloads.data + row;
    if (same_payload(d, payload))
        return true;
    char sentence[TUSK_SENTENCE];
    const char *sqlstate;
    d->has_read = false;
    *other = true;
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

bool has_document(const documents *d, idx_t row) {
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

bool count_row(documents *d, idx_t row, void **room, tusk_word_counts *counts) {
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
    return (*room && tusk_count_ids(&d->by, &ids, d->ids.type.f64, *room, counts, sentence)) ||
           refuse_topics(d, sentence);
}

void free_documents(documents *d) {
    free(d->room);
    scratch_free(&d->kept);
}
