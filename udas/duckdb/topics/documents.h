/* Documents and models of topics, as several functions read them. */
#ifndef TUSK_DUCKDB_DOCUMENTS_H
#define TUSK_DUCKDB_DOCUMENTS_H

#include "../../scalars/topics/topics.h"
#include "../features/words.h"

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

/* Writes the sentence as the call's error; returns false. */
bool refuse_topics(const documents *d, const char *sentence);
/* Reads the tokens of the rows. */
bool read_documents(documents *d, duckdb_vector v);
/* Reads the model of a row, unless it equals that of the previous row: then *other is
   unchanged. */
bool read_topics(documents *d, idx_t row, bool *other);
/* Whether a row has a model and tokens. */
bool has_document(const documents *d, idx_t row);
/* Counts a row's words. *room, which is freed and reallocated, is for documents of ids. */
bool count_row(documents *d, idx_t row, void **room, tusk_word_counts *counts);
void free_documents(documents *d);

#endif
