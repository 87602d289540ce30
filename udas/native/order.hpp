// The order in which a stochastic epoch visits rows. Partitions of PARTITION_ROWS neighbours are taken in random order,
// STREAMS of them at once, RUN_ROWS rows from each in turn: memory is read in a few streams, at nearly the speed of a scan,
// while a batch still mixes rows from all over the group.
#pragma once

#include <vector>

#include "sparse.hpp"

namespace tusk {

constexpr uint32_t RUN_ROWS = 8, PARTITION_ROWS = 512;
constexpr size_t STREAMS = 4;

// Neighbouring rows of a segment.
struct Run {
    const tusk_segment *segment;
    uint32_t first;
    uint32_t n;
};

inline uint64_t next_random(uint64_t &state) { // splitmix64
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// A group's rows in pieces of at most `rows`.
inline std::vector<Run> split(const tusk_group &group, uint32_t rows) {
    std::vector<Run> out;
    out.reserve(group.n_rows / rows + 16);
    int64_t left = group.n_rows;
    for (const tusk_segment *s = group.head; s && left > 0; s = s->next) {
        uint32_t here = (uint32_t)std::min<int64_t>(left, s->n_rows);
        for (uint32_t at = 0; at < here; at += rows) out.push_back({s, at, std::min(rows, here - at)});
        left -= here;
    }
    return out;
}

inline void shuffle(std::vector<Run> &runs, uint64_t seed) {
    for (size_t i = runs.size(); i > 1; i--) {
        size_t j = (size_t)(((__uint128_t)next_random(seed) * i) >> 64);
        std::swap(runs[i - 1], runs[j]);
    }
}

// All runs of a group in the epoch's order.
inline std::vector<Run> make_runs(const tusk_group &group, const tk_epoch *e) {
    if (!e->shuffle) return split(group, PARTITION_ROWS);
    std::vector<Run> partitions = split(group, PARTITION_ROWS), runs;
    shuffle(partitions, e->seed + (uint64_t)e->epochs_done * 0xd1342543de82ef95u);
    runs.reserve(group.n_rows / RUN_ROWS + partitions.size());
    for (size_t p = 0; p < partitions.size(); p += STREAMS) {
        size_t streams = std::min(STREAMS, partitions.size() - p);
        for (uint32_t at = 0; at < PARTITION_ROWS; at += RUN_ROWS)
            for (size_t k = p; k < p + streams; k++)
                if (at < partitions[k].n)
                    runs.push_back({partitions[k].segment, partitions[k].first + at,
                                    std::min(RUN_ROWS, partitions[k].n - at)});
    }
    return runs;
}

template <class T> const T *dense_row(const Run &r, int64_t d) {
    return (const T *)tusk_dense_values(r.segment) + (int64_t)r.first * d;
}

// Runs of several streams are too short for the processor to see that they go on.
template <class T> void prefetch_run(const Run &r, int64_t d) {
    const char *x = (const char *)dense_row<T>(r, d);
    size_t bytes = std::min<size_t>(r.n * d * sizeof(T), 2048);
    for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(x + at);
}

// Calls body(rows, y, n) for batches of at most `most` <= BLOCK_ROWS rows from runs[first] to runs[last - 1].
template <class T, class Body>
void for_dense_batches(const std::vector<Run> &runs, size_t first, size_t last, int64_t d, int most, Body &&body) {
    constexpr size_t AHEAD = 2 * STREAMS;
    const T *rows[BLOCK_ROWS];
    alignas(64) double y[BLOCK_ROWS];
    int n = 0;
    for (size_t i = first; i < last; i++) {
        if (i + AHEAD < last) prefetch_run<T>(runs[i + AHEAD], d);
        const T *x = dense_row<T>(runs[i], d);
        const double *label = tusk_labels(runs[i].segment) + runs[i].first;
        for (uint32_t k = 0; k < runs[i].n; k++) {
            rows[n] = x + k * d;
            y[n] = label[k];
            if (++n < most) continue;
            body(Gathered<T>{rows}, y, n);
            n = 0;
        }
    }
    if (n) body(Gathered<T>{rows}, y, n);
}

// The same for sparse rows: body(rows, y, n) with rows[i] a SparseRow, rows[n] the row after the batch if there is one,
// so that its weights can be fetched early; it has no entries at the end.
template <class T, class Body>
void for_sparse_batches(const std::vector<Run> &runs, size_t first, size_t last, int most, Body &&body) {
    SparseRow<T> rows[BLOCK_ROWS + 1];
    alignas(64) double y[BLOCK_ROWS + 1];
    int n = 0;
    for (size_t i = first; i < last; i++) {
        const tusk_segment *s = runs[i].segment;
        const uint32_t *start = tusk_row_starts(s) + runs[i].first;
        const int32_t *index = tusk_indices(s);
        const T *value = (const T *)tusk_sparse_values(s);
        const double *label = tusk_labels(s) + runs[i].first;
        for (uint32_t k = 0; k < runs[i].n; k++) {
            rows[n] = {index + start[k], value + start[k], start[k + 1] - start[k]};
            y[n] = label[k];
            if (n == most) {
                body(rows, y, n);
                rows[0] = rows[n];
                y[0] = y[n];
                n = 0;
            }
            n++;
        }
    }
    if (!n) return;
    rows[n] = {rows[0].index, rows[0].value, 0};
    body(rows, y, n);
}

} // namespace tusk
