/* States of metrics in memory of malloc, as where no database has memory of its own for them. */
#ifndef TUSK_METRICS_HEAP_H
#define TUSK_METRICS_HEAP_H

#include "classes.h"
#include "scored.h"

/* States grow with realloc. */
extern const tusk_grow tusk_heap;

/* These free what a state that grew so owns, and leave one without rows. */
void tusk_scored_free(tusk_scored *s);
void tusk_classes_free(tusk_classes *s);

#endif
