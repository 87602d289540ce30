// The two halves of every sparse pass. Weights are gathered by feature id; repeated ids add up by
// themselves.
#pragma once

#include <cmath>

#include "dense.hpp"

namespace tusk {

template <class T, class W>
inline double dot_sparse(const int32_t *index, const T *value, uint32_t n, const W *w) {
    double a = 0, b = 0, c = 0, e = 0;
    uint32_t k = 0;
    for (; k + 4 <= n; k += 4) {
        a += (double)value[k] * w[index[k]];
        b += (double)value[k + 1] * w[index[k + 1]];
        c += (double)value[k + 2] * w[index[k + 2]];
        e += (double)value[k + 3] * w[index[k + 3]];
    }
    for (; k < n; k++)
        a += (double)value[k] * w[index[k]];
    return (a + b) + (c + e);
}

// Entry k of row i is (index[k], value[k]).
template <class T> struct SparseRow {
    const int32_t *index;
    const T *value;
    uint32_t n;
};

// Asks for the weights of a row that comes soon.
template <class T, class W> inline void prefetch_weights(const SparseRow<T> &row, const W *w) {
    for (uint32_t k = 0; k < row.n; k++)
        __builtin_prefetch(w + row.index[k]);
}

template <class T> SparseRow<T> sparse_row(const SparseBlock<T> &b, int i) {
    uint32_t at = b.start[i];
    return {b.index + at, b.value + at, b.start[i + 1] - at};
}

template <class T> void margins(const SparseBlock<T> &rows, const double *w, double b, double *m) {
    for (int i = 0; i < rows.n; i++) {
        SparseRow<T> row = sparse_row(rows, i);
        m[i] = b + dot_sparse(row.index, row.value, row.n, w);
    }
}

template <class T> void add_gradient(const SparseBlock<T> &rows, const double *r, double *g) {
    for (int i = 0; i < rows.n; i++) {
        if (r[i] == 0)
            continue;
        SparseRow<T> row = sparse_row(rows, i);
        for (uint32_t k = 0; k < row.n; k++)
            g[row.index[k]] += r[i] * row.value[k];
    }
}

// Chunks of a sparse gradient each need d sums: few, by the group's rows alone, so that summing
// them up stays cheap.
inline int64_t sparse_chunk_rows(const tusk_group &group) {
    int64_t chunks =
        std::clamp<int64_t>(tk_nonzeros(&group) / (4 * (int64_t)group.dim + 1), 2, 64);
    return std::max<int64_t>(256, (group.n_rows + chunks - 1) / chunks);
}

template <class T, class Loss>
int sparse_gradient(const tk_pass *pass, const Loss &loss, const double *weights, double *out) {
    int64_t d = pass->groups[0].dim;
    auto chunks = make_chunks(pass, [&](int64_t g) { return sparse_chunk_rows(pass->groups[g]); });
    return sum_over_chunks(pass, chunks, d + 3, out, [&](const Chunk &c, double *acc) {
        const double *w = weights + c.group * (d + 1);
        Labels labels(pass, c.group);
        alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS];
        for_sparse_blocks<T>(c, BLOCK_ROWS, [&](const SparseBlock<T> &rows) {
            if (cancelled(pass->cancel_mark))
                return;
            margins(rows, w, w[d], m);
            acc[0] += evaluate(loss, labels, m, rows.y, rows.n, r, nullptr);
            acc[1] += rows.n;
            if (pass->loss_only)
                return;
            add_gradient(rows, r, acc + 2);
            acc[2 + d] += sum_block(r);
        });
    });
}

} // namespace tusk
