/* Trees laid out for walks of single rows, which are made once of the compact form and checked
 * then. Rows that are joined with many models come with another model each time, so there are few
 * rows to a tree. */
#ifndef TUSK_PACKED_TREES_H
#define TUSK_PACKED_TREES_H

#include "compact.h"

typedef struct tusk_packed tusk_packed;

/* To be freed by free(). NULL if the trees are damaged, if they have more than one output, splits
 * by levels, more than 128 leaves to a tree, more than 1,024 trees or 256 features, or if memory
 * is out. */
tusk_packed *tusk_packed_of(const tusk_compact *trees);
size_t tusk_packed_bytes(const tusk_packed *trees);

/* Asks for their memory. */
void tusk_packed_touch(const tusk_packed *trees);

/* Adds what the trees say of a row of their features, float or double, to its margin: the same
 * sum, bit for bit, as tusk_compact_margins. False, with nothing added, of rows with a NaN, and of
 * double rows if thresholds are no floats. */
bool tusk_packed_margin(const tusk_packed *trees, const void *x, bool f64, double *sum);

#endif
