/* Writes payloads into vectors. */
#ifndef TUSK_PAYLOAD_COLUMN_H
#define TUSK_PAYLOAD_COLUMN_H

#include "../../scalars/models/payload.h"
#include "../database.h"

/* The payload that was made last, from which that of a model like it follows. */
typedef struct last_payload {
    tusk_model_fields fields;
    tusk_payload_parts parts;
    bool made;
} last_payload;

/* Makes the payload of a model and writes it into a column of BLOBs. On failure, returns false
 * and a sentence. */
bool put_payload_of(duckdb_vector v, idx_t row, const tusk_model_fields *fields,
                    last_payload *last, char *sentence);

#endif
