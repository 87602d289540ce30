/* The fields of a model that a prediction uses: `store`, usually NULL, alone would cost 13 % of
 * the time. */
#ifndef TUSK_MODEL_COLUMN_H
#define TUSK_MODEL_COLUMN_H

#include "any_type.h"

enum used_field { U_TASK, U_COEF, U_INTERCEPT, U_CLASSES, U_OPTIONS, USED_FIELDS };

typedef struct model_column {
    column self, task, intercept, options;
    list_column coef, classes;
} model_column;

/* A STRUCT of these fields alone, in this order. */
duckdb_logical_type make_used_type(void);
model_column model_column_of(duckdb_vector v);

/* A STRUCT that has these fields among others, or NULL; false where it is neither. n: rows. */
bool model_column_of_any(duckdb_vector v, idx_t n, scratch *s, model_column *m);

/* The field of a STRUCT with this name; NULL where there is none. */
duckdb_vector field_of(duckdb_vector v, const char *name);

#endif
