/* Options of a training as SQL has them: JSON text, a STRUCT such as {'l2': 0.1}, or a MAP whose
 * keys are text. */
#ifndef TUSK_OPTIONS_H
#define TUSK_OPTIONS_H

#include "../any_type.h"

/* Options as text, (n,). False if they are of another type, if one of their values has a type
 * that JSON lacks, or if memory runs out (see scratch). */
bool options_of_any(duckdb_vector v, idx_t n, scratch *s, column *options);

#endif
