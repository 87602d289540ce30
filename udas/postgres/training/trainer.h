/* From blocks to models: calls the trainer in Python. */
#ifndef TUSK_POSTGRES_TRAINER_H
#define TUSK_POSTGRES_TRAINER_H

#include "groups.h"

#include "access/tupdesc.h"

#include "../../rowblock/named.h"
#include "../../rowblock/remarks.h"
#include "../../scalars/models/score.h"

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

/* Turns models stored by column into values of tuskml_model. */

/* Model i as a composite Datum in the current memory context. */
Datum model_datum(TupleDesc type, const tusk_models *models, int64 i);

/* The payload of a model, a bytea; 0 with a sentence if it is invalid for predictions. */
Datum payload_datum(const tusk_model_fields *fields, char *sentence);

/* Serialised dictionaries of a block, from parallel workers to the leader. */

/* Bytes that write_parts needs. */
Size parts_size(const tusk_block *block);
void write_parts(const tusk_block *block, char *out);
/* Bytes of serialised remarks. */
Size remarks_size(const tusk_remarks *r);
void write_remarks(const tusk_remarks *r, char *out);
void read_remarks(tusk_remarks *r, const char *in, const char *function);
/* Adds deserialised parts to a block, whose segments are linked. */
void read_parts(tusk_memory *memory, tusk_block *block, const char *in, const char *function);

/* Files that pass rows from workers to the leader, and their removal. */

/* Called once per process, when the library is loaded. */
void watch_transactions(void);

#endif
