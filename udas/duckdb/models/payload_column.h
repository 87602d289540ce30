/* Writes payloads into vectors. */
#ifndef TUSK_PAYLOAD_COLUMN_H
#define TUSK_PAYLOAD_COLUMN_H

#include "../../scalars/models/payload.h"
#include "../database.h"

/* Makes the payload of a model and writes it into a column of BLOBs. On failure, returns false
 * and a sentence. */
bool put_payload_of(duckdb_vector v, idx_t row, const tusk_model_fields *fields, char *sentence);

#endif
