/* Declarations shared by the metrics' aggregates. */
#ifndef TUSK_POSTGRES_METRICS_H
#define TUSK_POSTGRES_METRICS_H

#include "../../scalars/metrics/metric.h"
#include "../../scalars/metrics/scored.h"
#include "../../scalars/metrics/shares.h"
#include "../../scalars/metrics/table.h"
#include "../features/features.h"

enum metric_argument { A_STATE, A_LABEL, A_PREDICTED, A_THIRD, A_FOURTH, A_FIFTH };

/* The types of a transition's arguments, kept from row to row. */
typedef struct row_types {
    Oid label, predicted, third, fourth;
    tusk_positive positive; /* of the last row; its name is in the call site's memory */
    FmgrInfo outputs[2];    /* of label and predicted, if they are neither text nor numbers */
} row_types;

row_types *types_of(FmgrInfo *site);
/* Whether the row has a label and a prediction. */
bool has_row(FunctionCallInfo fcinfo);
/* Whether the third argument of a label and a score names the positive class. */
bool names_positive(FunctionCallInfo fcinfo);
/* A label or a prediction as a number that no other shares; name: of the metric, which rejects
 * a rounded one. */
double read_class(FunctionCallInfo fcinfo, int argument, Oid type, const char *name);
/* Whether a label or a prediction is the class that the argument at `positive` names; numbers and
 * booleans have the names that models give them. */
bool is_positive(FunctionCallInfo fcinfo, int argument, Oid type, int positive, const char *name);
/* Reads the row of a transition as numbers, the label as 1 for the named positive class; false
 * if it has a NULL. It refuses what a row without a weight may be: read_weight comes first. */
bool read_row(FunctionCallInfo fcinfo, const char *name, double *label, double *predicted);
/* Whether the transition has this argument, and it is not NULL. */
bool has_argument(FunctionCallInfo fcinfo, int argument);
/* Reads the row's weight at that argument, 1 if there is none; false if it is NULL. */
bool read_weight(FunctionCallInfo fcinfo, int argument, double *weight);
void refuse_row(const char *name, const char *sentence);

/* The state that the aggregate's argument holds; NULL if there are no rows yet. */
void *state_at(FunctionCallInfo fcinfo, int argument);
Datum give_state(FunctionCallInfo fcinfo, void *state);

/* The realloc that states in the context grow with. */
tusk_grow growth_in(MemoryContext context);
/* Checks whether the statement was cancelled. */
void breathe(void);

/* Writes the result of a function that returns an array of a composite type, row by row. */
typedef struct array_writer array_writer;
array_writer *array_begin(FunctionCallInfo fcinfo, const tusk_table *table);
tusk_writer array_rows(array_writer *w);
Datum array_end(array_writer *w);

/* Declarations shared by the transitions of metrics that are sums. */

/* Adds a row to the transition's state, and returns the state. */
Datum take_judged(FunctionCallInfo fcinfo, enum tusk_metric_kind kind, const tusk_judged *row);

#endif
