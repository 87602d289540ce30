/* A STRUCT with names as features: its columns as numbers and as text. */
#ifndef TUSK_DUCKDB_NAMED_H
#define TUSK_DUCKDB_NAMED_H

#include "../../scalars/named/pack.h"
#include "../any_type.h"

#define SHORT_STRING 12 /* bytes of a string that lie in the vector itself */

/* The bytes of a string. DuckDB's own accessors are calls, which cost more than reading. */
static inline tusk_text text_of_string(const duckdb_string_t *s) {
    uint32_t n = s->value.inlined.length;
    return (tusk_text){n > SHORT_STRING ? s->value.pointer.ptr : s->value.inlined.inlined, n};
}

/* Use of the columns: training, training with a label that is text or an ENUM, or predictions. */
enum named_use { NAMED_TRAIN, NAMED_TRAIN_TEXT, NAMED_TRAIN_ENUM, NAMED_PREDICT };

/* Reads a STRUCT of numbers, text, ENUM, BOOLEAN, UUID, dates and timestamps; false for another
 * type. For predictions a column of another type has neither numbers nor text; a training
 * rejects it with a sentence. n: rows. v may be NULL if only the label is text. */
bool named_columns_of(duckdb_vector v, idx_t n, enum named_use use, scratch *s,
                      tusk_named_chunk *c, char refusal[REFUSAL_ROOM]);

/* Whether a type is text or is read as text. */
bool is_text_type(duckdb_vector v);
/* The same for labels, whose booleans are the numbers 0 and 1. */
bool is_label_text(duckdb_vector v);
/* The texts of such a column. */
bool texts_of_any(duckdb_vector v, idx_t n, scratch *s, tusk_text **texts);
/* The values of an ENUM in its order, and none of other types. */
bool values_of_enum(duckdb_vector v, scratch *s, tusk_label_values *values);

#endif
