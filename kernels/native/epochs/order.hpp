// The order in which a stochastic epoch visits rows. Partitions of PARTITION_ROWS neighbouring
// rows come in random order, STREAMS of them at a time, and give RUN_ROWS rows each in turn. So
// memory is read in a few streams at nearly the speed of a scan, and a batch still mixes rows from
// all over the group.
#pragma once

#include <algorithm>
#include <vector>

#include "../linear/sparse.hpp"
#include "api.h"
#include "step_weights.hpp"

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

// Splits a group's rows into runs of at most `rows` rows.
inline std::vector<Run> split(const tusk_group &group, uint32_t rows) {
    std::vector<Run> out;
    out.reserve(group.n_rows / rows + 16);
    int64_t left = group.n_rows;
    for (const tusk_segment *s = group.head; s && left > 0; s = s->next) {
        uint32_t here = (uint32_t)std::min<int64_t>(left, s->n_rows);
        for (uint32_t at = 0; at < here; at += rows)
            out.push_back({s, at, std::min(rows, here - at)});
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

// Splits partitions into runs and interleaves the runs of STREAMS partitions at a time.
inline std::vector<Run> interleave(const std::vector<Run> &partitions) {
    std::vector<Run> runs;
    size_t rows = 0;
    for (const Run &p : partitions)
        rows += p.n;
    runs.reserve(rows / RUN_ROWS + partitions.size());
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

// The runs of every stride-th partition of a group, in the epoch's order.
inline std::vector<Run> make_runs(const tusk_group &group, const tk_epoch *e, int32_t stride) {
    std::vector<Run> partitions = split(group, PARTITION_ROWS), runs;
    if (stride > 1) {
        for (size_t p = 0; p < partitions.size(); p += stride)
            runs.push_back(partitions[p]);
        partitions.swap(runs);
        runs.clear();
    }
    if (!e->shuffle)
        return partitions;
    shuffle(partitions, e->seed + (uint64_t)e->epochs_done * 0xd1342543de82ef95u);
    return interleave(partitions);
}

// Each row drawn for group g, as a separate run.
inline std::vector<Run> drawn_runs(const tusk_group &group, const tk_drawn &drawn, int64_t g) {
    std::vector<const tusk_segment *> segments;
    std::vector<int64_t> end;
    for (const tusk_segment *s : SegmentsOf(group)) {
        segments.push_back(s);
        end.push_back((end.empty() ? 0 : end.back()) + s->n_rows);
    }
    std::vector<Run> runs;
    runs.reserve(drawn.begin[g + 1] - drawn.begin[g]);
    for (int64_t i = drawn.begin[g]; i < drawn.begin[g + 1]; i++) {
        size_t at = std::upper_bound(end.begin(), end.end(), drawn.rows[i]) - end.begin();
        int64_t before = at ? end[at - 1] : 0;
        runs.push_back({segments[at], (uint32_t)(drawn.rows[i] - before), 1});
    }
    return runs;
}

// Number of rows of each batch of an epoch.
class Batches {
public:
    Batches(int64_t size) : size_(size) {} // all batches are equal

    Batches(const tk_epoch *e, int64_t g) : size_(e->batch_size) {
        if (!e->drawn || !e->drawn->sizes)
            return;
        sizes_ = e->drawn->sizes + e->drawn->first[g];
        left_ = e->drawn->first[g + 1] - e->drawn->first[g];
        next();
    }

    int64_t size() const { return size_; }

    int64_t most() const { return left_ ? std::max(size_, most_of_sizes()) : size_; }

    void next() {
        if (left_) {
            size_ = *sizes_++;
            left_--;
        }
    }

private:
    int64_t most_of_sizes() const { return *std::max_element(sizes_, sizes_ + left_); }

    int64_t size_;
    const int32_t *sizes_ = nullptr;
    int64_t left_ = 0;
};

template <class T> const T *dense_row(const Run &r, int64_t d) {
    return (const T *)tusk_dense_values(r.segment) + (int64_t)r.first * d;
}

// Interleaved runs are too short for the hardware prefetcher, so we prefetch them.
template <class T> void prefetch_run(const Run &r, int64_t d) {
    const char *x = (const char *)dense_row<T>(r, d);
    size_t bytes = std::min<size_t>(r.n * d * sizeof(T), 2048);
    for (size_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(x + at);
}

// Calls body(rows, targets, n, last) for blocks of at most BLOCK_ROWS rows from runs[first] to
// runs[end - 1]. `last` is true if a block completes a batch.
template <class T, class Body>
void for_dense_batches(const std::vector<Run> &runs, size_t first, size_t end, int64_t d,
                       Batches batch, const StepWeights &weights, Body &&body) {
    constexpr size_t AHEAD = 2 * STREAMS;
    const T *rows[BLOCK_ROWS];
    alignas(64) double y[BLOCK_ROWS], weight[BLOCK_ROWS];
    const Targets targets{y, weights.any() ? weight : nullptr};
    int n = 0;
    int64_t gathered = 0; // rows of the batch in earlier blocks
    for (size_t i = first; i < end; i++) {
        if (i + AHEAD < end)
            prefetch_run<T>(runs[i + AHEAD], d);
        const T *x = dense_row<T>(runs[i], d);
        const double *label = tusk_labels(runs[i].segment) + runs[i].first;
        const double *given = weights.of(runs[i].segment);
        for (uint32_t k = 0; k < runs[i].n; k++) {
            rows[n] = x + k * d;
            y[n] = label[k];
            if (given)
                weight[n] = given[runs[i].first + k] * weights.inverse();
            bool last = gathered + ++n == batch.size();
            if (n < BLOCK_ROWS && !last)
                continue;
            body(Gathered<T>{rows}, targets, n, last);
            gathered = last ? 0 : gathered + n;
            n = 0;
            if (last)
                batch.next();
        }
    }
    if (n || gathered)
        body(Gathered<T>{rows}, targets, n, true);
}

template <class T> struct SparseBatch {
    const SparseRow<T> *rows;
    const double *y;
    int64_t n;
    const double *weight = nullptr; // NULL: all are 1
    SparseRow<T> next = {};         // the row after it, empty if there is none

    // Fetches what the next row looks up among d weights, unless all of them stay in a cache.
    template <class W> void prefetch_next(const W *w, int64_t d) const {
        if (d < 1 << 16)
            return;
        for (uint32_t k = 0; k < next.n; k++)
            __builtin_prefetch(w + next.index[k]);
    }
};

// Row k of a run.
template <class T> inline SparseRow<T> row_of_run(const Run &run, uint32_t k) {
    const uint32_t *start = tusk_row_starts(run.segment) + run.first + k;
    return {tusk_indices(run.segment) + start[0],
            (const T *)tusk_sparse_values(run.segment) + start[0], start[1] - start[0]};
}

// The same for sparse rows. Calls body(SparseBatch) for each whole batch.
template <class T, class Body>
void for_sparse_batches(const std::vector<Run> &runs, size_t first, size_t end, Batches batch,
                        const StepWeights &weights, Body &&body) {
    size_t room = std::min<size_t>(batch.most(), (end - first) * PARTITION_ROWS);
    std::vector<SparseRow<T>> rows(room);
    std::vector<double> y(room), weight(weights.any() ? room : 0);
    const double *weighted = weights.any() ? weight.data() : nullptr;
    int64_t n = 0;
    for (size_t i = first; i < end; i++) {
        const tusk_segment *s = runs[i].segment;
        const double *label = tusk_labels(s) + runs[i].first, *given = weights.of(s);
        for (uint32_t k = 0; k < runs[i].n; k++) {
            if (given)
                weight[n] = given[runs[i].first + k] * weights.inverse();
            rows[n] = row_of_run<T>(runs[i], k);
            y[n] = label[k];
            if (++n < batch.size())
                continue;
            SparseRow<T> next{};
            if (k + 1 < runs[i].n)
                next = row_of_run<T>(runs[i], k + 1);
            else if (i + 1 < end)
                next = row_of_run<T>(runs[i + 1], 0);
            body(SparseBatch<T>{rows.data(), y.data(), n, weighted, next});
            n = 0;
            batch.next();
        }
    }
    if (n)
        body(SparseBatch<T>{rows.data(), y.data(), n, weighted});
}

// Computes the derivatives of a sparse batch at fixed weights and returns the sum of the losses.
// margin(row) gives the margin of a row.
template <class T, class Margin>
double evaluate_batch(const SparseBatch<T> &batch, const Loss &loss, const Labels &labels,
                      Margin &&margin, std::vector<double> &r) {
    r.resize(batch.n);
    if (batch.n == 1) {
        double lost = evaluate_row(loss, labels, margin(batch.rows[0]), batch.y[0], r.data());
        double weight = batch.weight ? *batch.weight : 1;
        r[0] *= weight;
        return weight * lost;
    }
    alignas(64) double m[BLOCK_ROWS], block[BLOCK_ROWS];
    double total = 0;
    for (int64_t at = 0; at < batch.n; at += BLOCK_ROWS) {
        int n = (int)std::min<int64_t>(BLOCK_ROWS, batch.n - at);
        for (int i = 0; i < n; i++)
            m[i] = margin(batch.rows[at + i]);
        const Targets y = Targets{batch.y, batch.weight}.from(at);
        total += evaluate(loss, labels, m, y, n, block, nullptr);
        std::copy_n(block, n, r.begin() + at);
    }
    return total;
}

} // namespace tusk
