/* Documents: a LIST or an ARRAY of words. */
#ifndef TUSK_DUCKDB_WORDS_H
#define TUSK_DUCKDB_WORDS_H

#include "../../scalars/named/words.h"
#include "../any_type.h"

typedef struct document_column {
    list_column lists; /* the items of child.data are tusk_text */
    void *room;        /* for tusk_append_document, sized for the longest document */
} document_column;

/* Whether a type is a list of text, to any depth. */
bool is_list_of_text(duckdb_vector v);
/* Reads such a column; false if its lists are nested. n: rows. */
bool documents_of_any(duckdb_vector v, idx_t n, scratch *s, document_column *c);

static inline tusk_document document_at(const document_column *c, idx_t row) {
    duckdb_list_entry e = list_entry(&c->lists, row);
    const tusk_text *words = c->lists.child.data;
    return (tusk_document){.words = words + e.offset, .n = e.length, .room = c->room};
}

#endif
