/* Results of the trainer for a batch (batch.h); the Python package calls these functions. */
#ifndef TUSK_EMIT_H
#define TUSK_EMIT_H

#include "database.h"

TUSK_EXPORT void tusk_emit_models(tusk_batch *batch, const tusk_models *models);
/* Writes the first of these models at a row; DuckDB throws if its memory runs out. */
void put_first_model(duckdb_vector result, idx_t row, const tusk_models *models);
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
