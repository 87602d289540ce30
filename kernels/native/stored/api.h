/* Models whose weights are in a store. */
#ifndef TUSK_STORED_API_H
#define TUSK_STORED_API_H

#include "../../../kvstore/native/frames.h"
#include "../linear/api.h"
#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Return codes of the functions below, in addition to tk_code. */
enum tk_stored_code {
    TK_STORE_FAILED = 16,    /* `error` has a message */
    TK_STORE_CORRUPT = 17,   /* `error` has a message */
    TK_CHUNK_TOO_LARGE = 18, /* the payloads of one chunk, or of one row, do not fit */
    TK_BAD_PLACE = 19        /* a slot is beyond the end of its key's payload */
};

/* The sparse rows of one group, cut into chunks of neighbouring rows. While a chunk is trained
 * its payloads are in memory. Mapping replaces the feature ids in its rows by indices into
 * these payloads, once. */
typedef struct tk_chunks tk_chunks;

/* Chunks have rows_per_chunk rows, or fewer if the payloads of a chunk would take more than
 * most_bytes, at weight_size bytes per weight plus frame_bytes per payload. A row that exceeds
 * most_bytes by itself is a chunk that is trained by parts. Kernels find weights
 * through a table of pages of 2^shift weights; shift -1: the best size for each chunk. */
typedef struct tk_cut {
    int64_t rows_per_chunk, most_bytes, frame_bytes;
    int32_t weight_size, shift;
    int32_t threads;
    int64_t cancel_mark;
} tk_cut;
TK_API int tk_chunks_new(const tusk_group *group, const tk_cut *cut, tk_chunks **out);
TK_API void tk_chunks_free(tk_chunks *chunks);

/* Mapping repeats these steps until n_ids is -1. tk_chunks_ids takes up to `limit` chunks and
 * gives the distinct ids of each chunk, shape (n_ids,). The caller finds their keys and slots and
 * gets the distinct keys of each chunk, shape (n_keys,), ascending. The caller finds the widths of
 * the keys, which are the numbers of weights in their payloads. tk_chunks_place then overwrites
 * the ids in the rows. If it does not return TK_OK, the rows must not be used any more. */
TK_API int tk_chunks_ids(tk_chunks *chunks, int64_t limit, int64_t *n_ids);
TK_API void tk_chunks_copy_ids(const tk_chunks *chunks, int64_t *ids);
TK_API int tk_chunks_keys(tk_chunks *chunks, const int64_t *keys, const int32_t *slots,
                          int64_t *n_keys);
TK_API void tk_chunks_copy_keys(const tk_chunks *chunks, int64_t *keys);
TK_API int tk_chunks_place(tk_chunks *chunks, const int64_t *widths);

/* Mapping of chunks of one payload each, in steps controlled by the caller. tk_chunk_number
 * replaces a chunk's ids by their ranks and returns the n distinct ids, rising; scratch and
 * ids: as many as its entries. tk_chunk_replace replaces each number k in the rows by table[k].
 * tk_chunk_put declares that the numbers are indices into the payload of a key. */
TK_API int tk_chunk_number(tk_chunks *chunks, int64_t number, uint32_t *scratch, int32_t *ids,
                           int64_t *n);
TK_API void tk_chunk_replace(tk_chunks *chunks, int64_t number, const int32_t *table);
TK_API int tk_chunk_put(tk_chunks *chunks, int64_t number, uint64_t key, uint32_t width);

/* Halves a mapped chunk that is too large for the store. The numbers of later chunks go up by one.
 * TK_CHUNK_TOO_LARGE: the chunk has only one row. */
TK_API int tk_chunks_split(tk_chunks *chunks, int64_t number);

typedef struct tk_chunk {
    int64_t row, rows, entries; /* row: number of its first row in the group */
    const uint64_t *keys;       /* (n_keys,) distinct, ascending */
    const uint32_t *widths;
    int64_t n_keys, weights, features; /* weights: sum of widths; features: distinct ids */
    int32_t shift;
    int32_t wide; /* one row whose payloads do not fit into most_bytes: it is trained by parts */
} tk_chunk;
TK_API int64_t tk_chunks_count(const tk_chunks *chunks);
TK_API void tk_chunks_at(const tk_chunks *chunks, int64_t number, tk_chunk *out);

/* One training. A stored number u represents the weight w = scale * u, so that l2 need not touch
 * each weight. l1 is applied to a chunk's payloads when they are acquired. Both follow from
 * `time`, the sum of all steps so far, and from the payload's stamp: see stored/clock.hpp. */
typedef struct tk_stored {
    const tk_pass *pass; /* its one group is the one cut into chunks */
    const tk_chunks *chunks;
    const tusk_frame_access *access;
    const tk_open *open; /* a custom loss, for all rows; NULL: the loss of the pass. Unless its
                          * any_thread is set, pass->threads is 1 */
    /* Several classes, of one group, whose weights of a feature are adjacent; an entry's index
     * is that of the first; NULL: one margin. */
    const tk_softmax *softmax;
    double *intercepts;   /* (n_classes,), in and out; the first is fixed */
    const int64_t *which; /* (n_which,) numbers of the chunks to visit; NULL: all */
    int64_t n_which;
    int32_t batch_size, power; /* from here to shuffle: as in tk_epoch */
    double epochs_done;
    double l1, l2, step;
    uint64_t seed;
    int32_t shuffle;
    int32_t fold; /* for tk_stored_settle: leave weights with scale 1 and stamp 0 */
    /* All workers train the same chunk, chunk after chunk in order: for payloads that come in
     * this order only (kvstore/native/routes). */
    int32_t together;
    int32_t reference; /* for several classes: the first one's weights are fixed */
    /* in and out */
    double intercept;
    double time; /* initially 0 */
    /* out */
    double scale; /* of payloads that are up to date */
    double loss;  /* sum over rows; in an epoch: before each row's own update */
    double sum_squares, sum_absolute;         /* of weights, by tk_stored_settle */
    int64_t rows, n_keys, nonzeros;           /* rows read, keys acquired, nonzero weights */
    int64_t acquire_ns, train_ns, release_ns; /* summed over the workers */
    int64_t failed_chunk;                     /* -1: none */
    char error[TUSK_STORE_ERROR];
} tk_stored;

/* One epoch of SGD. pass->threads workers update the shared payloads in place, without locks. */
TK_API int tk_stored_epoch(tk_stored *job);
/* The sum of losses at the current weights. */
TK_API int tk_stored_loss(tk_stored *job);
/* Updates the payloads of n ascending keys with their pending penalties and sums up their
 * weights. Each worker holds at most most_bytes at a time. With fold, time becomes 0. If
 * folding fails, some payloads are folded and others are not. */
TK_API int tk_stored_settle(tk_stored *job, const uint64_t *keys, const uint32_t *widths,
                            int64_t n, int64_t most_bytes);

/* Payloads of n ascending keys in plain memory, initially zero. For trials of step sizes, and
 * tests. */
typedef struct tk_scratch tk_scratch;
TK_API int tk_scratch_new(const uint64_t *keys, const uint32_t *widths, int64_t n,
                          int32_t weight_size, tk_scratch **out);
TK_API void tk_scratch_free(tk_scratch *scratch);
TK_API void tk_scratch_reset(tk_scratch *scratch);
/* Valid as long as the scratch exists. */
TK_API const tusk_frame_access *tk_scratch_access(tk_scratch *scratch);
/* The frame of the i-th key. */
TK_API tusk_frame *tk_scratch_frame(tk_scratch *scratch, int64_t i);

#ifdef __cplusplus
}
#endif
#endif
