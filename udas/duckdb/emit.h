/* Results of the trainer for a batch (batch.h); the Python package calls these functions. */
#ifndef TUSK_EMIT_H
#define TUSK_EMIT_H

#include "database.h"

TUSK_EXPORT void tusk_emit_models(tusk_batch *batch, const tusk_models *models);
/* Writes models into the rows of their groups; DuckDB throws if its memory runs out. */
void put_models(duckdb_vector result, const idx_t *row_of_group, const tusk_models *models);
/* Text results of the other requests, a group at a time. */
TUSK_EXPORT void tusk_emit_text(tusk_batch *batch, int64_t group, const char *text);
TUSK_EXPORT void tusk_emit_frequencies(tusk_batch *batch, int64_t group,
                                       const tusk_frequencies *found);
TUSK_EXPORT void tusk_emit_partitioning(tusk_batch *batch, int64_t group,
                                        const tusk_partitioning *made);

/* The trainer, NULL until it is set. */
TUSK_EXPORT void tusk_set_trainer(tusk_trainer t);
tusk_trainer trainer_now(void);

#endif
