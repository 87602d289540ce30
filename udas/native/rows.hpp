// Walking the rows of a pass: chunks for the threads, and within a chunk small blocks that stay in
// the L1 cache.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "api.h"
#include "pool.hpp"
#include "working.hpp"

namespace tusk {

constexpr int BLOCK_ROWS = 64;

// Where row i of a dense block lies: one behind the other, or anywhere.
template <class T> struct Contiguous {
    const T *x;
    int64_t d;
    const T *operator()(int i) const { return x + i * d; }
};
template <class T> struct Gathered {
    const T *const *rows;
    const T *operator()(int i) const { return rows[i]; }
};

// Rows of one segment, side by side.
template <class T> struct SparseBlock {
    const uint32_t *start; // n + 1 places in index and value
    const int32_t *index;
    const T *value;
    const double *y;
    int n;
};

// `rows` rows of a group from row `offset` of a segment on.
struct Chunk {
    int64_t group;
    const tusk_segment *segment;
    uint32_t offset;
    int64_t rows;
};

// Chunk borders depend on the rows alone, never on the number of threads.
std::vector<Chunk> make_chunks(const tk_pass *pass,
                               const std::function<int64_t(int64_t group)> &chunk_rows);
inline std::vector<Chunk> make_chunks(const tk_pass *pass, int64_t chunk_rows) {
    return make_chunks(pass, [=](int64_t) { return chunk_rows; });
}

// About half a megabyte a chunk: large enough to forget the overhead, small enough to share out
// and to cancel.
inline int64_t chunk_rows_for(const tk_pass *pass) {
    int64_t bytes = 8 + pass->groups[0].dim * (int64_t)tusk_value_size(pass->groups[0].kind);
    return std::clamp<int64_t>((1 << 19) / bytes, 256, 16384);
}

// So many rows that this block and the next, on its way from memory, fit in the L1 cache; a
// multiple of eight.
template <class T> int block_rows(int64_t d) {
    return (int)std::clamp<int64_t>(16384 / (d * (int64_t)sizeof(T)) / 8 * 8, 8, BLOCK_ROWS);
}

// Calls body(rows, y, n) for the rows of a chunk in blocks of at most `most` <= BLOCK_ROWS. The
// short segments of small groups are gathered into whole blocks: vectors of eight rows want to be
// full.
template <class T, class Body>
void for_dense_blocks(const Chunk &c, int64_t d, int most, Body &&body) {
    const tusk_segment *s = c.segment;
    uint32_t at = c.offset;
    const T *rows[BLOCK_ROWS];
    alignas(64) double y[BLOCK_ROWS];
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
            body(Contiguous<T>{x, d}, tusk_labels(s) + at, n);
        } else {
            std::copy_n(tusk_labels(s) + at, n, y + gathered);
            for (int i = 0; i < n; i++)
                rows[gathered++] = x + i * d;
        }
        at += n;
        left -= n;
        if (gathered && (gathered == most || left == 0)) {
            body(Gathered<T>{rows}, y, gathered);
            gathered = 0;
        }
    }
}

// The same for sparse rows: body(SparseBlock), a block for each segment that it touches.
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
                            (const T *)tusk_sparse_values(s), tusk_labels(s) + at, n});
        at += n;
        left -= n;
    }
}

// Sums over rows: body(chunk, acc) adds to acc, `width` doubles that start at 0; out, (n_groups,
// width), gets the sums of each group's chunks in their order. A body may leave a chunk early once
// the deadline is past.
template <class Body>
int sum_over_chunks(const tk_pass *pass, const std::vector<Chunk> &chunks, int64_t width,
                    double *out, Body &&body, double deadline = 0) {
    std::fill(out, out + pass->n_groups * width, 0.0);
    // A group of one chunk adds straight into its place in out; the chunks of larger ones have
    // room of their own.
    std::vector<int64_t> place(chunks.size(), -1);
    int64_t shared = 0;
    for (size_t i = 0; i < chunks.size(); i++) {
        bool alone = (i == 0 || chunks[i - 1].group != chunks[i].group) &&
                     (i + 1 == chunks.size() || chunks[i + 1].group != chunks[i].group);
        if (!alone)
            place[i] = shared++;
    }
    Counted counted(shared * width * (int64_t)sizeof(double));
    // Fresh zeros, which each thread asks the system for where it needs them.
    std::unique_ptr<double, decltype(&std::free)> partial(
        (double *)std::calloc(std::max<int64_t>(shared, 1), width * sizeof(double)), std::free);
    if (!partial)
        throw std::bad_alloc();
    std::atomic<bool> stop{false};
    parallel_for((int64_t)chunks.size(), pass->threads, [&](int64_t i) {
        if (stop.load(std::memory_order_relaxed) || ending(pass->cancel_mark, deadline)) {
            stop.store(true, std::memory_order_relaxed);
            return;
        }
        body(chunks[i],
             place[i] < 0 ? out + chunks[i].group * width : partial.get() + place[i] * width);
    });
    if (deadline > 0 && past(deadline))
        return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OUT_OF_TIME;
    if (stop)
        return TK_CANCELLED;
    // Each column by itself, so that the order of its terms is that of the chunks.
    constexpr int64_t COLUMNS = 4096;
    int64_t ranges = shared ? (width + COLUMNS - 1) / COLUMNS : 0;
    parallel_for(ranges, pass->threads, [&](int64_t range) {
        int64_t first = range * COLUMNS, last = std::min(first + COLUMNS, width);
        for (size_t i = 0; i < chunks.size(); i++) {
            if (place[i] < 0)
                continue;
            double *to = out + chunks[i].group * width;
            const double *from = partial.get() + place[i] * width;
            for (int64_t k = first; k < last; k++)
                to[k] += from[k];
        }
    });
    return TK_OK;
}

} // namespace tusk
