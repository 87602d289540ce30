/* Documents and models of topics, as several functions read them. */
#ifndef TUSK_DUCKDB_DOCUMENTS_H
#define TUSK_DUCKDB_DOCUMENTS_H

#include "../../scalars/topics/topics.h"
#include "../database.h"
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

/* Registers a scalar function that sees NULLs. */

/* Registers a function of n arguments, and frees `result`. extra: the function's extra info, which
 * must outlive the function. */
static inline bool add_function(duckdb_connection connection, const char *name,
                                const duckdb_type *arguments, idx_t n, duckdb_logical_type result,
                                duckdb_scalar_function_t body, void *extra) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, name);
    for (idx_t i = 0; i < n; i++) {
        duckdb_logical_type type = duckdb_create_logical_type(arguments[i]);
        duckdb_scalar_function_add_parameter(f, type);
        duckdb_destroy_logical_type(&type);
    }
    duckdb_scalar_function_set_return_type(f, result);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_extra_info(f, extra, NULL);
    duckdb_scalar_function_set_function(f, body);
    bool done = duckdb_register_scalar_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&result);
    duckdb_destroy_scalar_function(&f);
    return done;
}

#endif
