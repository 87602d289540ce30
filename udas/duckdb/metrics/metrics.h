/* Declarations shared by the metrics' aggregates: their overloads, the rows of a chunk, and
 * results that are tables. A row with a NULL is not counted; without rows the result is NULL.
 * Combine leaves its source unchanged, because a window uses one state as the source of many. */
#ifndef TUSK_DUCKDB_METRICS_H
#define TUSK_DUCKDB_METRICS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../scalars/metrics/heap.h"
#include "../../scalars/metrics/metric.h"
#include "../../scalars/metrics/scored.h"
#include "../../scalars/metrics/shares.h"
#include "../../scalars/metrics/table.h"
#include "../features/named.h"

/* A class is a number, a boolean or text of any type that training accepts; the columns of a
 * chunk determine which of the three. */
typedef enum argument_kind {
    A_NUMBER,
    A_BOOLEAN,
    A_TEXT,
    A_WHOLE,
    A_SHARES,
    A_CLASS
} argument_kind;

#define METRIC_ARGUMENTS 5

struct overload;

/* Common properties of aggregates with the same kind of state. */
typedef struct metric_family {
    duckdb_aggregate_state_size size;
    duckdb_aggregate_init_t init;
    duckdb_aggregate_update_t update;
    duckdb_aggregate_combine_t combine;
    duckdb_aggregate_finalize_t finalize;
    /* Every aggregate needs a destructor. Without one, DuckDB 1.5 and 2.0 run a window without
     * ORDER BY row by row over a growing frame, and then pass an aggregate in C the first row
     * every time. */
    duckdb_aggregate_destroy_t destroy;
} metric_family;

/* Data of the callbacks of one overload. */
typedef struct overload {
    database *database;
    const char *name;
    const metric_family *family;
    int kind; /* which aggregate of the family */
    int n_arguments;
    argument_kind arguments[METRIC_ARGUMENTS];
    int weight;              /* index of the argument that is the row's weight; 0: none */
    int positive;            /* index of the name of the positive class; 0: none */
    int more;                /* index of bins, k, a quantile, a power or an average; 0: none */
    bool unweighted;         /* this overload has no version with a weight */
    bool third_skips;        /* a row where `more` is NULL is not counted */
    bool compares;           /* the result is a STRUCT of a comparison; text has its own checks */
    const tusk_table *table; /* of the result; NULL if the result is a number */
    const tusk_table *weighted_table; /* of the overload with weights; NULL: the same */
} overload;

static inline const overload *overload_of(duckdb_function_info info) {
    return duckdb_aggregate_function_get_extra_info(info);
}

void metric_refuse(duckdb_function_info info, const char *sentence);

/* The arguments of a chunk. */
typedef struct metric_chunk {
    column columns[METRIC_ARGUMENTS];
    argument_kind kinds[METRIC_ARGUMENTS]; /* never A_CLASS; texts of classes are tusk_text */
    bool rounded;                          /* whether a class is a number that was rounded */
    scratch scratch;
} metric_chunk;

/* Reads the arguments; false with a sentence if a class has an unsupported type. The caller
 * frees the scratch in either case. */
bool metric_chunk_of(duckdb_data_chunk chunk, const overload *o, metric_chunk *c, char *sentence);

/* One row of a chunk. */
typedef struct metric_row {
    const overload *o;
    const column *columns;
    const argument_kind *kinds;
    idx_t at;
    tusk_positive *positive; /* the last one of the chunk */
} metric_row;

static inline double number_at(const metric_row *row, int argument) {
    const void *data = row->columns[argument].data;
    return row->kinds[argument] == A_BOOLEAN ? ((const bool *)data)[row->at]
                                             : ((const double *)data)[row->at];
}
/* A text argument other than a class. */
static inline tusk_text text_at(const metric_row *row, int argument) {
    return text_of_string((const duckdb_string_t *)row->columns[argument].data + row->at);
}
/* A class that is text. */
static inline tusk_text class_text_at(const metric_row *row, int argument) {
    return ((const tusk_text *)row->columns[argument].data)[row->at];
}
/* Whether a class is a number whose double other numbers share. */
static inline bool has_rounded(const metric_row *row) {
    return is_rounded(&row->columns[0], row->at) || is_rounded(&row->columns[1], row->at);
}
/* Whether the row has the argument that only some metrics take. */
static inline bool has_more(const metric_row *row) {
    return row->o->more && is_valid(&row->columns[row->o->more], row->at);
}

static inline double weight_at(const metric_row *row) {
    return row->o->weight ? number_at(row, row->o->weight) : 1;
}

static inline bool is_text(tusk_text a, const char *text, size_t length) {
    return length == a.length && !memcmp(a.data, text, length);
}
/* The positive class of the row, which seldom changes from row to row. */
static inline const tusk_positive *positive_at(const metric_row *row) {
    tusk_text name = text_at(row, row->o->positive);
    tusk_positive *p = row->positive;
    if (!p->name || !is_text(name, p->name, p->length))
        *p = tusk_positive_named(name.data, name.length);
    return p;
}
/* Whether a label or a prediction is the row's positive class; numbers and booleans have the
 * names that models give them. */
static inline bool is_positive(const metric_row *row, int argument) {
    const tusk_positive *p = positive_at(row);
    if (row->kinds[argument] != A_TEXT)
        return number_at(row, argument) == p->number;
    return is_text(class_text_at(row, argument), p->name, p->length);
}
/* Whether a label or a prediction can be a class; false with a sentence. */
static inline bool is_class(const metric_row *row, int argument, char *sentence) {
    return row->kinds[argument] == A_TEXT ||
           tusk_is_class(number_at(row, argument), argument ? "predicted" : "label", sentence);
}
/* The label as a number: 1 for the named positive class, and 0 for the others. */
static inline double label_at(const metric_row *row) {
    return row->o->positive ? is_positive(row, 0) : number_at(row, 0);
}
/* Whether a text label lacks the name of its positive class. */
static inline bool lacks_positive(const metric_row *row) {
    return row->kinds[0] == A_TEXT && row->kinds[1] == A_NUMBER && !row->o->positive;
}

/* Whether one argument is text and the other is not. */
static inline bool mixes_text(const metric_row *row) {
    return row->kinds[1] != A_SHARES && (row->kinds[0] == A_TEXT) != (row->kinds[1] == A_TEXT);
}

typedef bool (*take_row)(duckdb_function_info info, duckdb_aggregate_state state,
                         const metric_row *row);

/* Calls take for each row of the chunk without NULLs, until it returns false. Inlined so that
 * take is inlined too. */
static inline __attribute__((always_inline)) void each_row(duckdb_function_info info,
                                                           duckdb_data_chunk chunk,
                                                           duckdb_aggregate_state *states,
                                                           const void *caller, take_row take) {
    const overload *o = overload_of(info);
    idx_t n = duckdb_data_chunk_get_size(chunk);
    char sentence[TUSK_SENTENCE];
    metric_chunk c;
    duckdb_aggregate_state same[CHUNK_ROWS];
    states = states_of_rows(o->database, states, n, caller, same);
    if (!states) {
        metric_refuse(info, LONE_STATE);
        return;
    }
    if (!metric_chunk_of(chunk, o, &c, sentence)) {
        metric_refuse(info, sentence);
        scratch_free(&c.scratch);
        return;
    }
    tusk_positive positive = {0};
    metric_row row = {o, c.columns, c.kinds, 0, &positive};
    for (; row.at < n; row.at++) {
        if (!is_valid(&c.columns[0], row.at) || !is_valid(&c.columns[1], row.at) ||
            (o->third_skips && !is_valid(&c.columns[o->more], row.at)) ||
            (o->positive && !is_valid(&c.columns[o->positive], row.at)) ||
            (o->weight && !is_valid(&c.columns[o->weight], row.at)))
            continue;
        if (c.rounded && !o->compares && has_rounded(&row)) {
            metric_refuse(info, TUSK_ROUNDED_CLASS);
            break;
        }
        if (!take(info, states[row.at], &row))
            break;
    }
    scratch_free(&c.scratch);
}

/* Adds an overload with the argument kinds of `like`, and unless it is unweighted one with a
 * weight after them; false if DuckDB rejects it. */
bool add_overload(duckdb_aggregate_function_set set, const overload *like);
/* Adds the overload of `like` whose third argument names the positive class. */
bool add_positive(duckdb_aggregate_function_set set, const overload *like);
bool register_comparison(duckdb_connection connection, database *d);
bool register_sums(duckdb_connection connection, database *d);
bool register_rankings(duckdb_connection connection, database *d);
bool register_class_metrics(duckdb_connection connection, database *d);

/* Writes a result row by row, as a LIST of STRUCTs of the table's columns. */
typedef struct list_writer {
    const tusk_table *table;
    duckdb_vector list;
    idx_t first; /* in the list's items */
} list_writer;

duckdb_logical_type make_comparison_type(void);
duckdb_logical_type make_table_type(const tusk_table *table);
list_writer list_begin(const tusk_table *table, duckdb_vector list);
tusk_writer list_rows(list_writer *w);
/* Makes the rows written so far the list at row `at`. */
void list_end(const list_writer *w, idx_t at);

#endif
