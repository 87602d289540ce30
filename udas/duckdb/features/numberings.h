/* The numberings of a database: one for each of some threads. */
#ifndef NUMBERINGS_H
#define NUMBERINGS_H

#include "../../scalars/named/numbering.h"
#include "../any_type.h"

typedef struct numberings numberings;

numberings *numberings_new(void);
void numberings_free(numberings *all);

/* Numbers the texts of n rows if they are of many groups, with this thread's numbering. Returns
 * whether the numbering must be released after the rows have been packed. */
bool number_texts(database *d, tusk_named_chunk *chunk, duckdb_aggregate_state *states, idx_t n,
                  scratch *s);
void numbering_give(numberings *all);

#endif
