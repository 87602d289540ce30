// Iteration over the rows of a pass: chunks are shared out to threads, and each chunk is read in
// small blocks that stay in the L1 cache.
#pragma once

#include <algorithm>
#include <vector>

#include "api.h"
#include "pool.hpp"
#include "segments.hpp"
#include "working.hpp"

namespace tusk {

constexpr int BLOCK_ROWS = 64;

// The address of row i of a dense block, whose rows are contiguous or scattered.
template <class T> struct Contiguous {
    const T *x;
    int64_t d;
    const T *operator()(int i) const { return x + i * d; }
};
template <class T> struct Gathered {
    const T *const *rows;
    const T *operator()(int i) const { return rows[i]; }
};

// Labels of neighbouring rows with their weights, offsets and clusters; NULL for those that they
// lack.
struct Targets {
    const double *y;
    const double *weight = nullptr, *offset = nullptr, *cluster = nullptr;
    operator const double *() const { return y; }
    Targets from(int64_t row) const {
        return {y + row, weight ? weight + row : nullptr, offset ? offset + row : nullptr,
                cluster ? cluster + row : nullptr};
    }
};

// The targets of a segment.
inline Targets targets_of(const tusk_segment *s, tusk_shape shape) {
    return {tusk_labels(s), tusk_extra(s, shape, TUSK_WEIGHTS), tusk_extra(s, shape, TUSK_OFFSETS),
            tusk_extra(s, shape, TUSK_CLUSTERS)};
}

// Targets copied from several segments.
class GatheredTargets {
public:
    void put(const Targets &from, int n, int at) {
        std::copy_n(from.y, n, y_ + at);
        if (from.weight)
            std::copy_n(from.weight, n, weight_ + at);
        if (from.offset)
            std::copy_n(from.offset, n, offset_ + at);
        if (from.cluster)
            std::copy_n(from.cluster, n, cluster_ + at);
    }
    Targets get(int32_t extras) const {
        return {y_, extras & TUSK_WEIGHTS ? weight_ : nullptr,
                extras & TUSK_OFFSETS ? offset_ : nullptr,
                extras & TUSK_CLUSTERS ? cluster_ : nullptr};
    }

private:
    alignas(64) double y_[BLOCK_ROWS], weight_[BLOCK_ROWS], offset_[BLOCK_ROWS];
    alignas(64) double cluster_[BLOCK_ROWS];
};

// The sum of the weights of n rows.
inline double weight_of(const Targets &t, int n) {
    if (!t.weight)
        return n;
    double total = 0;
    for (int i = 0; i < n; i++)
        total += t.weight[i];
    return total;
}

// Neighbouring sparse rows of one segment.
template <class T> struct SparseBlock {
    const uint32_t *start; // (n + 1,) offsets into index and value
    const int32_t *index;
    const T *value;
    Targets y;
    int n;
};

// `rows` consecutive rows of a group, from row `offset` of `segment` on.
struct Chunk {
    int64_t group;
    const tusk_segment *segment;
    uint32_t offset;
    int64_t rows;
    tusk_shape shape = {};
};

// Chunk borders depend on the rows alone, never on the number of threads.
std::vector<Chunk> make_chunks(const tk_pass *pass, Ref<int64_t(int64_t group)> chunk_rows);
inline std::vector<Chunk> make_chunks(const tk_pass *pass, int64_t chunk_rows) {
    return make_chunks(pass, [=](int64_t) { return chunk_rows; });
}

// About half a megabyte per chunk: large enough that the overhead is negligible, small enough to
// balance the threads and to cancel soon.
inline int64_t chunk_rows_for(const tk_pass *pass) {
    int64_t bytes = 8 + pass->groups[0].dim * (int64_t)tusk_value_size(pass->groups[0].kind);
    return std::clamp<int64_t>((1 << 19) / bytes, 256, 16384);
}

// The number of rows, a multiple of eight, for which this block and the prefetched next one fit in
// the L1 cache.
template <class T> int block_rows(int64_t d) {
    return (int)std::clamp<int64_t>(16384 / (d * (int64_t)sizeof(T)) / 8 * 8, 8, BLOCK_ROWS);
}

// Calls body(rows, targets, n) for the rows of a chunk in blocks of at most `most` <= BLOCK_ROWS.
// Rows of short segments are gathered into whole blocks, because vectors of eight rows are fastest
// when they are full.
template <class T, class Body>
void for_dense_blocks(const Chunk &c, int64_t d, int most, Body &&body) {
    const tusk_segment *s = c.segment;
    uint32_t at = c.offset;
    const T *rows[BLOCK_ROWS];
    GatheredTargets several;
    int gathered = 0;
    for (int64_t left = c.rows; left > 0;) {
        if (at == s->n_rows) {
            s = s->next;
            at = 0;
            continue;
        }
        const T *x = (const T *)tusk_dense_values(s) + at * d;
        int n = (int)std::min<int64_t>({most - gathered, left, (int64_t)(s->n_rows - at)});
        if (n == most) {
            body(Contiguous<T>{x, d}, targets_of(s, c.shape).from(at), n);
        } else {
            several.put(targets_of(s, c.shape).from(at), n, gathered);
            for (int i = 0; i < n; i++)
                rows[gathered++] = x + i * d;
        }
        at += n;
        left -= n;
        if (gathered && (gathered == most || left == 0)) {
            body(Gathered<T>{rows}, several.get(c.shape.extras), gathered);
            gathered = 0;
        }
    }
}

// The same for sparse rows: body(SparseBlock). A block never spans two segments.
template <class T, class Body> void for_sparse_blocks(const Chunk &c, int most, Body &&body) {
    const tusk_segment *s = c.segment;
    uint32_t at = c.offset;
    for (int64_t left = c.rows; left > 0;) {
        if (at == s->n_rows) {
            s = s->next;
            at = 0;
            continue;
        }
        int n = (int)std::min<int64_t>({most, left, (int64_t)(s->n_rows - at)});
        body(SparseBlock<T>{tusk_row_starts(s) + at, tusk_indices(s),
                            (const T *)tusk_sparse_values(s), targets_of(s, c.shape).from(at), n});
        at += n;
        left -= n;
    }
}

// Sums over rows. body(chunk, acc) adds to acc, an array of `width` doubles that start at 0. The
// chunks' sums are added in order into out, of shape (n_groups, width). A body may leave a chunk
// early once the pass has to end.
int sum_over_chunks(const tk_pass *pass, const std::vector<Chunk> &chunks, int64_t width,
                    double *out, Ref<void(const Chunk &, double *)> body, double deadline = 0);

} // namespace tusk
