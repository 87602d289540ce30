/* A STRUCT with names as features: its columns as numbers and as text. */
#ifndef TUSK_DUCKDB_NAMED_H
#define TUSK_DUCKDB_NAMED_H

#include "../../rowblock/named.h"
#include "../../scalars/models/named.h"
#include "../any_type.h"

#define NAMED_RUN 64 /* rows that are packed at once */

/* The columns of one chunk. */
typedef struct named_columns {
    const tusk_schema *schema;
    tusk_given_column *column; /* [schema->n_columns] */
    void *buffer;              /* room for NAMED_RUN rows, float or double */
} named_columns;

/* Reads a STRUCT of numbers, text, ENUM, BOOLEAN, UUID, dates and timestamps; false if it is
 * none, or with a sentence if a column is of another type. n: rows. text_label: of the schema.
 * v may be NULL where only the label is text. */
bool named_columns_of(duckdb_vector v, idx_t n, bool text_label, scratch *s, named_columns *c,
                      char refusal[REFUSAL_ROOM]);

/* Whether a type is text or is read as text. */
bool is_text_type(duckdb_vector v);
/* The same of labels, whose booleans are the numbers 0 and 1. */
bool is_label_text(duckdb_vector v);
/* The texts of such a column. */
bool texts_of_any(duckdb_vector v, idx_t n, scratch *s, tusk_text **texts);

/* Whether a row has a NULL in one of the columns. */
bool named_gap(const named_columns *c, idx_t row);

/* Appends n <= NAMED_RUN rows of one group, from `row` on, with the labels y. Returns a
 * tusk_code. */
int append_named(tusk_memory *memory, tusk_block *block, const named_columns *c, idx_t row, idx_t n,
                 const double *y, tusk_fault *fault);

#endif
