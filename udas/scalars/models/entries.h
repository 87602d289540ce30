/* The entries of sparse rows by rising id. */
#ifndef TUSK_ENTRIES_H
#define TUSK_ENTRIES_H

#include "score.h"

typedef struct tusk_entry {
    int64_t id;
    double x;
} tusk_entry;

#define TUSK_FEW_ENTRIES 128 /* number that fits on the stack */

static inline double tusk_number_at(const void *x, bool f64, uint64_t k) {
    return f64 ? ((const tusk_weight *)x)[k] : (double)((const float *)x)[k];
}

/* Whether the ids of a row rise, so that none repeats. */
bool tusk_is_rising(const tusk_sparse_row *row);

/* The n entries of a row by rising id, with the sums of the values of repeated ids: in `few`,
 * or in allocated memory, which the caller frees. NULL with a sentence if memory is out. */
tusk_entry *tusk_entries_of(const tusk_sparse_row *row, bool f64, tusk_entry few[TUSK_FEW_ENTRIES],
                            uint64_t *n, char *sentence);

#endif
