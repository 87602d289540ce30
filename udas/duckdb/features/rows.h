/* The arguments of train_model and explain_training for a chunk of rows. */
#ifndef TUSK_DUCKDB_ROWS_H
#define TUSK_DUCKDB_ROWS_H

#include "../any_type.h"
#include "../training/train_model.h"
#include "named.h"
#include "words.h"

typedef struct rows {
    duckdb_data_chunk chunk;
    idx_t n;
    column task, label, options, weight, offset;
    int extras; /* bits of enum tusk_extra */
    feature_column features;
    bool boolean_label, has_options;
    bool by_name; /* features are in `columns`, not in `features` */
    bool by_word; /* features are in `documents` */
    document_column documents;
    const tusk_text *label_texts; /* NULL: numbers or booleans */
    tusk_label_values label_order;
    tusk_named_chunk columns; /* for features with names or text labels */
    char refusal[REFUSAL_ROOM];
} rows;

/* Reads the types of an overload. */
rows rows_of(duckdb_data_chunk chunk, const overload *o);
/* Reads arguments of any type; false if they cannot be trained on. */
bool rows_of_any(duckdb_data_chunk chunk, const overload *o, scratch *s, rows *r);

/* Remarks on the NULLs of a row that is left out. */
void remark_gaps(const rows *r, idx_t row, const spec *spec, tusk_remarks *to);

#endif
