/* The partitioner's native half: plain C, called from Python with the GIL released.
 *
 * Arguments and results are numbers only. Results do not depend on the number of threads. Every
 * function that returns an int returns TP_OK or one of the codes below.
 */
#ifndef TUSK_PARTITIONER_API_H
#define TUSK_PARTITIONER_API_H

#include <stdint.h>

#include "../../schedule/native/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TP_API __attribute__((visibility("default")))

enum tp_code { TP_OK = 0, TP_NO_MEMORY = 1 };

/* --- greedy merging: Algorithm 3 of Qin, Torres, Rusu, VLDB 2017 --- */

/* The pool whose threads tp_affinities uses. */
TP_API void tp_use_pool(const tusk_pool *pool);

typedef struct tp_merging tp_merging;

typedef struct tp_step {
    int32_t first,
        second;       /* the merged partitions, each named by its lowest feature; first < second */
    int32_t together; /* rows that access both */
    int32_t rows;     /* rows that access the merged partition */
    double saved;     /* the reduction of total cost, in the unit of seek and unit */
} tp_step;

/* Row r = 0 .. n_rows - 1 accesses features[starts[r] .. starts[r + 1]). Features outside 0 ..
 * n_features - 1 are ignored, repeated ones count once. A partition of s features costs seek +
 * s * unit for each row that accesses it. Both must be whole numbers with n_rows * (seek +
 * n_features * unit) <= 2^53, so that all arithmetic on doubles is exact. */
TP_API int tp_open(const int64_t *starts, const int32_t *features, int64_t n_rows,
                   int32_t n_features, double seek, double unit, tp_merging **out);
TP_API void tp_close(tp_merging *merging);
/* Computes the affinities of features begin .. end - 1 with all features after them. Call it
 * once for each feature, before the first tp_merge. */
TP_API int tp_affinities(tp_merging *merging, int32_t begin, int32_t end, int32_t threads);
/* Merges up to `limit` times, best pair first. *n_steps < limit means that no further merge
 * gains. */
TP_API int tp_merge(tp_merging *merging, int32_t limit, tp_step *steps, int32_t *n_steps);
/* The current partitions: for each, its lowest feature, the rows that access it and its number
 * of features; and their affinity matrix of shape (n, n), unless matrix is NULL. Returns n. */
TP_API int32_t tp_partitions(const tp_merging *merging, int32_t *lowest, int32_t *rows,
                             int32_t *sizes, int32_t *matrix);

/* --- the index map --- */

/* One entry of the hash table of frequent features; key < 0: empty. */
typedef struct tp_place {
    int64_t feature, key;
    int32_t slot, unused;
} tp_place;

/* Fills a table of 2^bits entries, more than n, with (feature, key, slot). The features are
 * distinct. */
TP_API void tp_table(const int64_t *features, const int64_t *keys, const int32_t *slots, int64_t n,
                     int32_t bits, tp_place *table);
/* Features from `start` on are in blocks of `size`, with keys from `first_key` on. */
typedef struct tp_range {
    int64_t start, first_key, size;
} tp_range;

/* Features in the table are where it says; every other feature is in the block of its range.
 * ranges has 64 entries, one for each number of bits that a feature may have. */
TP_API void tp_locate(const tp_place *table, int32_t bits, const tp_range *ranges,
                      const int64_t *features, int64_t n, int64_t *keys, int32_t *slots);

/* --- blocks --- */

/* The number of (row, block) pairs: counts the first feature of each row, and each feature in
 * another block than the one before it. Row numbers do not decrease, and ids increase within a
 * row. */
TP_API int64_t tp_requests(const int32_t *rows, const int64_t *features, int64_t n, int64_t block);

/* --- features that occur (live.cpp) --- */

/* A page of 2^16 ids: the number of its first feature, its number of features, and the offset
 * of its data, which is uint16: 128 counts and 65,536 bits if is_bitmap, otherwise `count` ids. */
typedef struct tp_page {
    int64_t first, offset;
    int32_t count, is_bitmap;
} tp_page;

/* Sets the bits of the ids in first .. first + size - 1; ignores others. */
TP_API void tp_live_mark(uint64_t *bits, int64_t first, int64_t size, const int32_t *ids,
                         int64_t n);
/* Counts the bits set in each page. */
TP_API void tp_live_count(const uint64_t *bits, int64_t n_pages, int32_t *counts);
/* Writes the pages' data; data[0] is at offset 0. */
TP_API void tp_live_pack(const uint64_t *bits, const tp_page *pages, int64_t n_pages,
                         uint16_t *data);
/* The numbers of ids, which must not be negative; -1 for ids that do not occur. */
TP_API void tp_live_number(const tp_page *pages, int64_t n_pages, const uint16_t *data,
                           const int64_t *ids, int64_t n, int64_t *numbers);
/* The ids of numbers, all of which must exist. */
TP_API void tp_live_ids(const tp_page *pages, int64_t n_pages, const uint16_t *data,
                        const int64_t *numbers, int64_t n, int64_t *ids);

/* --- features by groups of rows (order.cpp) --- */

/* Sets one code per feature, 255 at first: that of the group that has the feature, or 0 if
 * several groups have it. */
TP_API void tp_order_mark(uint8_t *codes, const int64_t *features, int64_t n, uint8_t code);
/* Counts the features of each code up to the end of each 4,096: shape (rows, n_codes), at least
 * one row. */
TP_API void tp_order_count(const uint8_t *codes, int64_t n, int32_t n_codes, int64_t *counts);
/* Replaces each feature by first[code] + the number of features with its code below it;
 * negative features stay. */
TP_API void tp_order_number(const uint8_t *codes, int32_t n_codes, const int64_t *counts,
                            const int64_t *first, int64_t *features, int64_t n);
/* The inverse; -1 if no feature has this number. first is ascending. */
TP_API void tp_order_feature(const uint8_t *codes, int64_t n_features, int32_t n_codes,
                             const int64_t *counts, const int64_t *first, int64_t *numbers,
                             int64_t n);

/* --- rare features by the rows that contain them (related.hpp) --- */

/* Sketch of a feature: min-hashes of its rows, the sum of hashes of its rows, which
 * distinguishes sets of rows, and its number of entries. */
typedef struct tp_related {
    uint32_t sketch[4];
    uint32_t sum;
    uint32_t rows;
    int32_t feature;
} tp_related;

typedef struct tp_clusters tp_clusters;

/* Initialises n features, below 2^31, without rows. */
TP_API void tp_related_new(tp_related *related, int64_t n);
/* Adds rows first_row .. first_row + n_rows - 1. Row r has features[starts[r] .. starts[r + 1]);
 * those outside 0 .. n - 1 are ignored. chunk_rows rows are visited together. */
TP_API void tp_related_add(tp_related *related, int64_t n, const int64_t *starts,
                           const int64_t *features, int64_t n_rows, int64_t first_row,
                           int64_t chunk_rows);
/* Sorts in two steps so that it can be interrupted: into 256 bins, whose ends it returns; then
 * each of the bins first .. last - 1. */
TP_API void tp_related_bins(tp_related *related, int64_t n, int64_t *ends);
TP_API void tp_related_sort(tp_related *related, const int64_t *ends, int32_t first, int32_t last,
                            int32_t threads);
/* Clusters of at most `most` sorted features; they refer to `related`. */
TP_API int tp_clusters_open(const tp_related *related, int64_t n, double seek, double unit,
                            int32_t most, tp_clusters **out);
TP_API int64_t tp_clusters_count(const tp_clusters *clusters);
/* Numbers features 0 .. n - 1 by cluster; clusters of at most `block` lie in one block. */
TP_API int tp_clusters_place(const tp_clusters *clusters, int32_t block, int32_t *places);
TP_API void tp_clusters_close(tp_clusters *clusters);

#ifdef __cplusplus
}
#endif

#endif
