/* Stores of models that are larger than memory, for predictions. */
#ifndef TUSK_DUCKDB_STORES_H
#define TUSK_DUCKDB_STORES_H

#include "../../scalars/models/score.h"
#include "../database.h"

/* Files of stores may use a quarter of the memory that rows may use. */
tusk_stores stores_of(database *d);

#endif
