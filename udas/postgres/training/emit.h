/* Turns models stored by column into values of tuskml_model. */
#ifndef TUSK_POSTGRES_EMIT_H
#define TUSK_POSTGRES_EMIT_H

#include "../backend.h"

#include "access/tupdesc.h"

#include "../../scalars/models/score.h"

/* Model i as a composite Datum in the current memory context. */
Datum model_datum(TupleDesc type, const tusk_models *models, int64 i);

/* The payload of a model, a bytea; 0 with a sentence if it is invalid for predictions. */
Datum payload_datum(const tusk_model_fields *fields, char *sentence);

#endif
