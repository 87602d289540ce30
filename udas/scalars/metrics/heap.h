/* States of metrics on the heap, for callers without a database's memory. */
#ifndef TUSK_METRICS_HEAP_H
#define TUSK_METRICS_HEAP_H

#include "classes.h"
#include "scored.h"

/* States grow with realloc. */
extern const tusk_grow tusk_heap;

/* Frees the memory of a state that grew so, and leaves it without rows. */
void tusk_scored_free(tusk_scored *s);
void tusk_classes_free(tusk_classes *s);

#endif
