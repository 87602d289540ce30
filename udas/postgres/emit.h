/* Models by column into values of tuskml_model. */
#ifndef TUSK_POSTGRES_EMIT_H
#define TUSK_POSTGRES_EMIT_H

#include "door.h"

#include "access/tupdesc.h"

/* Model i as a composite Datum in the current memory context. */
Datum model_datum(TupleDesc type, const tusk_models *models, int64 i);

#endif
