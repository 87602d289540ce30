/* The two packed forms of trees. Each has the functions of packed.h: its size in bytes, 0 if
 * the trees do not fit it; its conversion, false if they are damaged or do not fit; and the
 * margin of a row. Trees have one output, at most MOST_TREES trees and MOST_FEATURES features,
 * and a split. */
#ifndef TUSK_TREE_FORMS_H
#define TUSK_TREE_FORMS_H

#include "compact.h"

#define MOST_TREES 1024
#define MOST_FEATURES 256

/* Bounds by feature, for trees of at most 32 leaves (masked.c). */
typedef struct tusk_masked tusk_masked;
size_t tusk_masked_bytes(const tusk_compact *trees, bool f64);
bool tusk_masked_make(const tusk_compact *trees, bool f64, tusk_masked *to);
bool tusk_masked_margin(const tusk_masked *trees, const void *x, bool f64, double *sum);

/* Nodes to step through, for trees of at most 128 leaves (stepped.c). */
typedef struct tusk_stepped tusk_stepped;
size_t tusk_stepped_bytes(const tusk_compact *trees, bool f64);
bool tusk_stepped_make(const tusk_compact *trees, bool f64, tusk_stepped *to);
bool tusk_stepped_margin(const tusk_stepped *trees, const void *x, bool f64, double *sum);

#endif
