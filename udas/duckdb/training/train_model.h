/* Declarations shared by the aggregates that pass rows to the trainer: the states, and
 * everything after the rows are in. */
#ifndef TUSK_TRAIN_MODEL_H
#define TUSK_TRAIN_MODEL_H

#include <string.h>

#include "../database.h"
#include "eras.h"
#include "specs.h"

typedef struct train_state {
    tusk_block block;
    tusk_remarks remarks;
    spec *spec; /* NULL until the first row */
    run *run;   /* NULL until the first row */
} train_state;

#define FULL 4        /* number of arguments of train_model with options */
#define WITH_WEIGHT 5 /* and with the row's weight */
#define WITH_OFFSET 6 /* and with its offset */

/* Data of the callbacks of one overload. */
typedef struct overload {
    database *database;
    feature_type features;
    bool boolean_label;
    bool has_options;
    enum tusk_request request;
    bool wide;     /* partition.c: whether ids are BIGINT */
    int arguments; /* train_model.c: number of arguments of any type; 0: the types above */
    enum task_type { TEXT, NUMBER, BOOLEAN, LIST, ANYTHING } task; /* the first one's type */
    bool any_label_only; /* only the label is of any type */
} overload;

static inline overload *overload_of(duckdb_function_info info) {
    return duckdb_aggregate_function_get_extra_info(info);
}

static inline text text_at(const column *c, idx_t row) {
    duckdb_string_t *s = (duckdb_string_t *)c->data + row;
    return (text){duckdb_string_t_data(s), duckdb_string_t_length(*s)};
}

/* Whether two string_t are equal: equal bytes, which hold the text or point at it, mean equal
 * text. */
static inline bool same_string(const column *c, idx_t a, idx_t b) {
    const duckdb_string_t *s = c->data;
    return memcmp(s + a, s + b, sizeof *s) == 0;
}

/* Sets an error of the running call; it starts with the function's name. */
void refuse(duckdb_function_info info, const char *sentence);
void refuse_fault(duckdb_function_info info, const tusk_fault *fault);

#define AHEAD 32 /* rows to prefetch, as many small groups' states are scattered */

/* The run of those states that have one; sets *refused if they may not continue. */
run *run_of_states(duckdb_function_info info, duckdb_aggregate_state *states, idx_t n,
                   bool *refused);
/* Frees the rows of the states. The caller has called eras_enter. */
void drop_states(duckdb_aggregate_state *states, idx_t n);

/* The spec of a task and options; NULL, with an error set, if they are rejected. */
spec *spec_of_texts(duckdb_function_info info, text task, text options);

/* Sets the spec of a row's group, or rejects the row if its group has another spec. */
bool adopt(duckdb_function_info info, train_state *s, spec *spec, run *run);

/* Appends the rows of a chunk to their states. A state's memory comes from the era of its run. */
typedef void (*row_taker)(duckdb_function_info info, const void *rows,
                          duckdb_aggregate_state *states, run *run);
/* An update: takes the rows of a chunk, unless the statement is over. caller: the update's
 * CALLER. */
void take_in(duckdb_function_info info, duckdb_aggregate_state *states, idx_t n,
             const void *caller, const void *rows, row_taker take);

/* --- callbacks for overloads whose extra info is an overload --- */

idx_t state_size(duckdb_function_info info);
void state_init(duckdb_function_info info, duckdb_aggregate_state state);
void state_destroy(duckdb_aggregate_state *states, idx_t n);
void combine(duckdb_function_info info, duckdb_aggregate_state *sources,
             duckdb_aggregate_state *targets, idx_t n);
void finalize(duckdb_function_info info, duckdb_aggregate_state *states, duckdb_vector result,
              idx_t n, idx_t offset);
void train_update(duckdb_function_info info, duckdb_data_chunk chunk,
                  duckdb_aggregate_state *states);
void train_update_any(duckdb_function_info info, duckdb_data_chunk chunk,
                      duckdb_aggregate_state *states);

/* --- registration --- */

/* Each takes ownership of the type. */
void add_parameter(duckdb_aggregate_function f, duckdb_logical_type type);
/* Adds an aggregate with the callbacks above and a copy of `like`. */
bool add_aggregate(duckdb_aggregate_function_set set, const char *name, const overload *like,
                   void (*add_parameters)(duckdb_aggregate_function f, const overload *o),
                   duckdb_logical_type result, duckdb_aggregate_update_t update);

#endif
