/* Reads the fields of models for their payloads. */
#ifndef TUSK_MODEL_COLUMN_H
#define TUSK_MODEL_COLUMN_H

#include "../../scalars/models/payload.h"
#include "../../scalars/models/score.h"
#include "../any_type.h"
#include "../database.h"

typedef struct model_column {
    column self, task, intercept, options, preparation, payload, iterations;
    list_column coef, classes, class_names, spread;
} model_column;

/* Reads a STRUCT with these fields and possibly others, or NULL; false for other types. n:
 * rows. */
bool model_column_of_any(duckdb_vector v, idx_t n, scratch *s, model_column *m);

/* The fields of the model in a row that is not NULL. */
tusk_model_fields model_fields_at(const model_column *m, idx_t row);
tusk_text text_in(const column *c, idx_t row);
/* Whether the trees or topics of the model are only in its payload. */
bool has_weights_in_payload(const model_column *m, idx_t row);
/* The sentence for a model that has lost the weights of its payload; NULL: it has them. */
const char *weights_lost(const model_column *m, idx_t row);

/* Reads lists of text; older models lack them, and their vector is NULL. */
bool names_of_any(duckdb_vector v, idx_t n, scratch *s, list_column *l);
/* The field of a STRUCT with this name; NULL if there is none. */
duckdb_vector field_of(duckdb_vector v, const char *name);
/* Whether the type is that of NULL without a cast. */
bool is_null_type(duckdb_vector v);

/* Writes payloads into vectors. */

/* The payload that was made last, from which that of a model like it follows. */
typedef struct last_payload {
    tusk_model_fields fields;
    tusk_payload_parts parts;
    bool made;
} last_payload;

/* Makes the payload of a model and writes it into a column of BLOBs. On failure, returns false
 * and a sentence. */
bool put_payload_of(duckdb_vector v, idx_t row, const tusk_model_fields *fields,
                    last_payload *last, char *sentence);

/* Stores of models that are larger than memory, for predictions. */

/* Files of stores may use a quarter of the memory that rows may use. */
tusk_stores stores_of(database *d);

#endif
