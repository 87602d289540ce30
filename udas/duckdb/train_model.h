/* What the aggregates whose rows go to the trainer share: states, and all after the rows are in.
 */
#ifndef TUSK_TRAIN_MODEL_H
#define TUSK_TRAIN_MODEL_H

#include <string.h>

#include "door.h"
#include "eras.h"
#include "specs.h"

typedef struct train_state {
    uint64_t mark;
    tusk_block block;
    spec *spec; /* NULL until the first row */
    run *run;   /* NULL as the spec is */
} train_state;

#define FULL 4 /* arguments of train_model, with options */

/* What the callbacks of one overload need to know. */
typedef struct overload {
    door *door;
    feature_type features;
    bool boolean_label;
    bool has_options;
    enum tusk_request request;
    bool wide;     /* partition.c: ids are BIGINT */
    int arguments; /* train_model.c: so many of any type; 0: of the types above */
    enum task_type { TEXT, NUMBER, BOOLEAN, LIST, ANYTHING } task; /* the type of the first */
    bool any_label_only; /* of those: features and options have types of their own */
} overload;

static inline overload *overload_of(duckdb_function_info info) {
    return duckdb_aggregate_function_get_extra_info(info);
}

static inline text text_at(const column *c, idx_t row) {
    duckdb_string_t *s = (duckdb_string_t *)c->data + row;
    return (text){duckdb_string_t_data(s), duckdb_string_t_length(*s)};
}

/* The bytes of a string_t name its text or point at it: equal bytes, equal text. */
static inline bool same_string(const column *c, idx_t a, idx_t b) {
    const duckdb_string_t *s = c->data;
    return memcmp(s + a, s + b, sizeof *s) == 0;
}

/* Errors of the running call, named after the function. */
void refuse(duckdb_function_info info, const char *sentence);
void refuse_fault(duckdb_function_info info, const tusk_fault *fault);

/* The spec of a task and options, or NULL and refused. */
spec *spec_of_texts(duckdb_function_info info, text task, text options);

/* Notes the spec of a row, or refuses it when the group has another. */
bool adopt(duckdb_function_info info, train_state *s, spec *spec, run *run);

/* Appends the rows of a chunk to their states; a state's memory is its run's era's. */
typedef void (*row_taker)(duckdb_function_info info, const void *rows,
                          duckdb_aggregate_state *states, run *run);
/* An update: the rows of a chunk, unless the statement is over. caller: the update's CALLER. */
void take_in(duckdb_function_info info, duckdb_aggregate_state *states, idx_t n,
             const void *caller, const void *rows, row_taker take);

/* --- callbacks, of overloads whose extra info is an overload --- */

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
void overload_free(void *p);

void add_parameter(duckdb_aggregate_function f, duckdb_logical_type type);

#endif
