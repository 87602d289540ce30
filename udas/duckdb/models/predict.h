/* Declarations shared by the overloads of predict and similar functions. */
#ifndef TUSK_DUCKDB_PREDICT_H
#define TUSK_DUCKDB_PREDICT_H

#include "../../scalars/models/interval.h"
#include "../../scalars/planned/plan.h"
#include "../database.h"
#include "../features/named.h"

typedef struct overload {
    database *database;
    enum tusk_answer answer;
    feature_type features;
    bool any;    /* features of any type */
    bool whole;  /* takes models with all their fields, instead of payloads */
    bool offset; /* the third argument is added to margins */
} overload;

/* A field of intervals; validity: NULL until the first NULL is written. */
typedef struct end_column {
    duckdb_vector vector;
    double *data;
    uint64_t *validity;
} end_column;

/* One chunk of rows. */
typedef struct call {
    duckdb_function_info info;
    const overload *o;
    tusk_stores stores;
    idx_t n;
    column models; /* of any type; only for whole models */
    column payloads;
    feature_column features;
    column offsets;
    bool by_name; /* features are in `rows`, not in `features` */
    tusk_named_rows rows;
    tusk_plans *plans;      /* NULL: models are checked for every row */
    bool features_complete; /* no feature of the chunk is NULL */
    column levels;          /* of intervals */
    double interval[TUSK_INTERVAL_FIELDS];
    end_column ends[TUSK_INTERVAL_FIELDS]; /* the fields of the result */
    duckdb_vector result;
    double *out;
    uint64_t *validity; /* of the result; NULL until the first NULL is written */
} call;

/* Writes the sentence as the call's error; returns false. */
bool refuse_prediction(const call *c, const char *sentence);
/* The checked model of a row without a plan. False if it is rejected. */
bool read_model_of_row(const call *c, idx_t row, tusk_scorer *s);
/* The plan of the model of n rows, from `row` on; NULL if there is none. */
tusk_plan *plan_of_row(const call *c, idx_t row, idx_t n);
void put_null_prediction(call *c, idx_t row);
/* Converts margins to the requested result. */
void answer_margins(const call *c, const tusk_scorer *s, double *margins, idx_t n);

/* Whether the result is a STRUCT of an interval. */
static inline bool of_intervals(const overload *o) {
    return o->answer == TUSK_PREDICT_INTERVAL;
}

/* Scores a chunk of rows; the function's extra info is its overload. */
void score_chunk(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result);
static inline bool of_lists(const overload *o) {
    return tusk_answers_lists(o->answer);
}

#endif
