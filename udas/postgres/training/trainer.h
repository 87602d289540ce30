/* From blocks to models: calls the trainer in Python. */
#ifndef TUSK_POSTGRES_TRAINER_H
#define TUSK_POSTGRES_TRAINER_H

#include "groups.h"

#include "access/tupdesc.h"

/* Trains, or explains, s and other waiting groups of its list, and sets their results. fcinfo:
 * of the final function. */
void train_groups(FunctionCallInfo fcinfo, train_state *s, enum tusk_request request);

/* Result of a final function for its state. */
Datum finish_group(FunctionCallInfo fcinfo, enum tusk_request request);

/* The batch that is being trained; NULL outside of a training. */
PGDLLEXPORT tusk_batch *tuskml_current_batch(void);
/* For PG_CATCH in functions that Python calls: keeps the error, which is raised after Python
 * has returned. */
void keep_batch_failure(void);

/* Creates one group's result from a C structure. type: the composite type to return. */
typedef Datum answer_maker(TupleDesc type, const void *answer);
/* For functions that Python calls during a training: stores an error until Python has returned. */
void emit_made(tusk_batch *batch, int64_t group, answer_maker *make, const void *answer);

#endif
