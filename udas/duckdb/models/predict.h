/* What the overloads of predict and its like share with what they run. */
#ifndef TUSK_DUCKDB_PREDICT_H
#define TUSK_DUCKDB_PREDICT_H

#include "../../scalars/models/payload.h"
#include "../database.h"

typedef struct overload {
    database *database;
    enum tusk_answer answer;
    feature_type features;
    bool any;   /* features of any type */
    bool whole; /* takes models with all their fields, instead of payloads */
} overload;

/* Scores a chunk of rows; the function's extra info is its overload. */
void score_chunk(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result);
static inline bool of_lists(const overload *o) {
    return tusk_answers_lists(o->answer);
}

#endif
