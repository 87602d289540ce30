/* Equal rows of a block as one, whose weight is their number: sums over few distinct rows are
 * those over all (Wong et al., You only compress once: optimal data compression for estimating
 * linear models, 2021). Rows are equal if their features, labels and offsets have the same bits.
 *
 * It is tried on dense rows without weights of their own once a block has a few thousand. Later
 * rows are appended as before, with a weight of 1, and are merged when enough of them are there
 * that the work for the distinct ones before is small. `nnz` of a block's first segment, which has
 * no entries, is the number of rows at which that happens; 0: the first few thousand. */
#ifndef TUSK_MERGE_H
#define TUSK_MERGE_H

#include "rowblock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits beside those of enum tusk_extra: a block's equal rows may be merged; they were, and weights
 * are numbers of rows. A group has the second one only. */
#define TUSK_MAY_MERGE 16
#define TUSK_COUNTS 32

/* The number of rows that a group was given. */
static inline int64_t tusk_rows_given(const tusk_group *g) {
    int64_t given = 0, left = g->n_rows;
    if (!(g->extras & TUSK_COUNTS))
        return left;
    for (const tusk_segment *s = g->head; s && left > 0; left -= s->n_rows, s = s->next) {
        const double *weight = tusk_extra(s, tusk_shape_of(g), TUSK_WEIGHTS);
        for (uint32_t row = 0; row < s->n_rows; row++)
            given += (int64_t)weight[row];
    }
    return given;
}

/* The rows of a block as kernels receive them. */
static inline tusk_group tusk_group_of(const tusk_block *b) {
    return (tusk_group){
        b->head, b->n_rows, b->n_skipped, b->dim, b->kind, b->parts, b->extras & ~TUSK_MAY_MERGE,
        0,       b->wide};
}

/* The number of rows that a block was given, skipped ones included. */
static inline int64_t tusk_rows_seen(const tusk_block *b) {
    tusk_group g = tusk_group_of(b);
    return tusk_rows_given(&g) + b->n_skipped;
}

/* Merges the rows of a block whose segments are full, where that pays. The block stays as it is
 * where it does not, or if memory is out. */
void tusk_merge_some(tusk_memory *memory, tusk_block *block);
/* Merges what was appended to a merged block, before its rows are read. */
void tusk_merge_rest(tusk_memory *memory, tusk_block *block);
/* Makes a block a merged one. Returns a tusk_code. */
int tusk_merge_all(tusk_memory *memory, tusk_block *block);

/* Drops the block's rows and dictionaries, to which it still points. */
void tusk_block_free_rows(tusk_block *block);

#ifdef __cplusplus
}
#endif
#endif
