/* Payloads that travel: the weights of a model that memory does not hold, in a file, each in the
 * region of the next chunk of rows that needs it.
 *
 * Chunks are visited in a fixed cyclic order, so it is known which chunk needs a weight next. A
 * chunk's weights lie together, ordered by the chunk from which they came: one sequential read.
 * When the chunk is done, each weight goes to the region of its next chunk: at most one write per
 * other chunk. So an epoch moves each weight once per chunk that uses it, and nothing else. (It is
 * time-forward processing: Chiang et al., External-memory graph algorithms, SODA 1995. Qin,
 * Torres, Rusu, VLDB 2017, instead read the partitions that a chunk touches, with all that lies in
 * them.) A thread reads the next chunk's region and writes what the chunk before left.
 */
#ifndef TUSK_ROUTES_API_H
#define TUSK_ROUTES_API_H

#include "../api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ks_routes ks_routes;

/* Weights that chunk j takes over from chunk i are bucket i of region j. State by pair of
 * chunks lies in a file, so that memory does not bound their number. Arrays belong to the
 * caller, and must be valid until ks_routes_close. */
typedef struct ks_route_plan {
    int32_t chunks, weight_size; /* weight_size: bytes of all weights of a feature, which move
                                  * together; elsewhere here "a weight" is all of a feature's */
    const int64_t
        *region; /* (chunks + 1,) offset of each region in the file of weights, in bytes */
    const int64_t *first; /* (chunks + 1,) number of weights of earlier chunks */
    int32_t weights;      /* descriptor: the weights, zeros at first */
    int32_t moves;   /* descriptor: int32 of shape (first[chunks],): for each chunk the indices
                      * of its weights in the order of their destination regions */
    int32_t links;   /* descriptor: uint32 of shape (chunks, 4, chunks): for each chunk the
                      * sizes of its buckets and their first indices, in weights; then the same
                      * for the buckets that it fills in the other regions */
    int32_t piece;   /* largest number of weights acquired together between passes */
    int32_t behind;  /* bytes gathered for each region before they are written, a multiple of
                      * 4,096, or 0 */
    int32_t several; /* weights per feature, 1 or more; widths of frames count them singly */
} ks_route_plan;

typedef struct ks_route_counters { /* of buckets, and of runs written; see FrameCounters */
    int64_t wanted, hits, requests, found, written, bytes_read, bytes_written;
    int64_t reading, writing, waiting; /* ns of the thread, and of workers waiting for it */
} ks_route_counters;

/* Memory: four times the largest region, and `behind` and less than 200 bytes per chunk. In a
 * pass the key of a chunk's weights is its number, and their width that of its region. */
KS_API int ks_routes_open(const ks_route_plan *plan, ks_routes **out, char *error);
KS_API void ks_routes_close(ks_routes *routes);
KS_API void ks_routes_access(ks_routes *routes, tusk_frame_access *out);
KS_API void ks_routes_count(ks_routes *routes, ks_route_counters *counters);
/* Between passes: rest 1 leaves all weights in the file, those of a feature in the region of
 * the first chunk that has it. Then any worker may acquire the p-th piece of the weights
 * resting in region j, from the first index of its bucket j on; its key is j * 2^16 + p. rest 0
 * ends it; all stamps become 0 if fold is set. */
KS_API int ks_routes_rest(ks_routes *routes, int rest, int fold, char *error);

/* Planning. out[k] is the number of earlier occurrences of chunks[k] in chunks, starting at its
 * count in next, shape (chunks,); next is updated. */
KS_API void ks_route_ranks(const uint16_t *chunks, int64_t n, uint32_t *next, int32_t *out);
/* pairs: id * 2^16 + chunk, rising, all pairs of their ids. Computes for each pair the chunk
 * that has the id before, and 2^16 times the one that has it after, in the order of chunks and
 * of ids: next, shape (chunks,), has the start of each chunk in out. */
KS_API void ks_route_neighbours(const uint64_t *pairs, int64_t n, int64_t *next, uint32_t *out);
/* The pairs of a range of ids, low .. low + width - 1: rising in each chunk, chunks
 * concatenated. */
typedef struct ks_range {
    int32_t *ids;
    const int64_t *lengths; /* (chunks,) */
    int32_t chunks, low;
    int64_t width;
} ks_range;

/* The same from pairs in the order of chunks, without a sort, if most ids of a range occur.
 * table, uint32 of shape (3, block), and next, shape (chunks,), are scratch memory: it takes
 * `block` ids at a time. */
KS_API void ks_route_linked(const ks_range *range, uint32_t *table, int64_t block, int64_t *next,
                            uint32_t *out);
/* Adds the number of pairs of a range by chunk before to takes, shape (chunks, chunks). */
KS_API void ks_route_tally(const ks_range *range, const uint32_t *around, uint32_t *takes);
/* Filters the ids of a range in place, in the same order, to those of pairs whose weight stays
 * with its chunk between passes. Writes their number by chunk to counts, shape (chunks,), and
 * returns their total. */
KS_API int64_t ks_route_rests(const ks_range *range, const uint32_t *around, uint32_t *counts);
/* From the chunks before and after each weight of a chunk, as above: the index of each weight
 * in the chunk's region, and these indices in the order of the destination regions. takes,
 * gives: shape (chunks,), first indices of the buckets in either; they are advanced. */
KS_API void ks_route_order(const uint32_t *around, int64_t n, uint32_t *takes, uint32_t *gives,
                           int32_t *places, int32_t *going);
/* Extracts the weights of a chunk that rest in its region between passes, in the order of ids;
 * returns their number. around: as above; takes: first indices of the buckets in `weights`,
 * which are those of the region from the first one that rests; they are advanced. Writes one
 * item beyond the result. */
KS_API int64_t ks_route_resting(const uint32_t *around, int64_t n, int32_t chunk, uint32_t *takes,
                                const uint32_t *weights, uint32_t *out);

/* Resting pairs of a range, ids and the bits of their weights by chunk, in the order of ids:
 * yields the next nonzero ones, at most `most`, which is more than `block`. Returns their
 * number; 0 at the end. next, shape (2, chunks), has in its first row the start of the chunks'
 * remaining ids; table, uint32 of shape (block,), is scratch memory. Blocks of ids begin at low
 * and at multiples of `block` beyond it, and no block is divided between two calls. */
typedef struct ks_rest {
    const ks_range *range;
    const uint32_t *weights;
    int64_t *next;
    uint32_t *table;
    int64_t block, most;
} ks_rest;

KS_API int64_t ks_route_by_id(const ks_rest *rest, int64_t *ids, uint32_t *weights);

/* Runs of a file, concatenated in memory. */
typedef struct ks_runs {
    int32_t file, threads; /* threads: largest number of concurrent requests */
    int32_t writes;        /* 1: from memory into the file, 0: from the file into memory */
    void *data;
    const int64_t *at, *bytes; /* (n,) offsets in the file, and lengths */
    int64_t n;
} ks_runs;

KS_API int ks_move_runs(const ks_runs *runs, char *error);

#ifdef __cplusplus
}
#endif

#endif
