/* From blocks to models: the call of the trainer in Python. */
#ifndef TUSK_POSTGRES_TRAINER_H
#define TUSK_POSTGRES_TRAINER_H

#include "groups.h"

#include "access/tupdesc.h"

/* Trains, or explains, s and others of its list that wait; sets their results. fcinfo is of the
 * final function. */
void train_groups(FunctionCallInfo fcinfo, train_state *s, enum tusk_request request);

/* What a final function returns for the state that it is called with. */
Datum finish_group(FunctionCallInfo fcinfo, enum tusk_request request);

/* The batch in work; NULL outside of a training. */
PGDLLEXPORT tusk_batch *tuskml_current_batch(void);
/* For PG_CATCH in what Python calls: the error is raised once Python has returned. */
void keep_batch_failure(void);

/* Makes a group's result of one answer; type: the composite type that is returned. */
typedef Datum answer_maker(TupleDesc type, const void *answer);
/* For what Python calls while the batch is in work: an error waits until Python has returned. */
void emit_made(tusk_batch *batch, int64_t group, answer_maker *make, const void *answer);

#endif
