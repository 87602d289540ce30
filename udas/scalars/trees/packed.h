/* Trees laid out for walks of single rows, converted from the compact form and checked once.
 * PostgreSQL passes one row at a time; rows that are joined with many models have another model
 * each time, so there are few rows to a tree. */
#ifndef TUSK_PACKED_TREES_H
#define TUSK_PACKED_TREES_H

#include "compact.h"

typedef struct tusk_packed tusk_packed;

/* The bytes of the packed form for rows of floats or doubles; 0 without such a form: for
 * several outputs, more than 1,024 trees or more than 256 features. */
size_t tusk_packed_bytes(const tusk_compact *trees, bool f64);
/* Writes the packed form into that many bytes, aligned to 8. False if the trees are damaged, if
 * they have splits by levels, or if one has more than 128 leaves. */
bool tusk_packed_make(const tusk_compact *trees, bool f64, tusk_packed *to);

/* Prefetches the memory of the packed trees. */
void tusk_packed_touch(const tusk_packed *trees);

/* Adds the trees' values for a row of all features to its margin: the same sum, bit for bit, as
 * tusk_compact_margins. False, with nothing added, for a row with a NaN, or for doubles if the
 * form is that for floats. */
bool tusk_packed_margin(const tusk_packed *trees, const void *x, bool f64, double *sum);

#endif
