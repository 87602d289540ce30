// The parts of every sparse pass: margins and gradient. Weights are looked up by feature id. The
// values of repeated ids add up.
#pragma once

#include <cmath>
#include <type_traits>
#include <vector>

#include "dense.hpp"
#include "sparse/even_rows.hpp"

namespace tusk {

// Entry k of a row is (index[k], value[k]).
template <class T> struct SparseRow {
    const int32_t *index;
    const T *value;
    uint32_t n;
};

// Weights of one thread. The asm makes compilers load them one by one, which is faster than the
// gather instructions that they would use.
template <class W> struct OwnWeights {
    W *w;
    W &at(int32_t id) const {
        W *one = w + id;
        asm("" : "+r"(one));
        return *one;
    }
    std::remove_const_t<W> read(int32_t id) const { return at(id); }
    void write(int32_t id, W v) const { at(id) = v; }
};

// x . w in the precision W of the weights. There is no prefetch, since the processor reads ahead
// into the next row by itself.
template <class T, template <class> class Weights, class W>
inline auto dot_sparse(const SparseRow<T> &x, Weights<W> w) {
    using Sum = std::remove_const_t<W>;
    Sum a = 0, b = 0, c = 0, e = 0;
    uint32_t k = 0;
    for (; k + 4 <= x.n; k += 4) {
        a += (Sum)x.value[k] * w.read(x.index[k]);
        b += (Sum)x.value[k + 1] * w.read(x.index[k + 1]);
        c += (Sum)x.value[k + 2] * w.read(x.index[k + 2]);
        e += (Sum)x.value[k + 3] * w.read(x.index[k + 3]);
    }
    for (; k < x.n; k++)
        a += (Sum)x.value[k] * w.read(x.index[k]);
    return (a + b) + (c + e);
}

// w -= by x.
template <class T, template <class> class Weights, class W>
inline void move_along(const SparseRow<T> &x, W by, Weights<W> w) {
    for (uint32_t k = 0; k < x.n; k++)
        w.write(x.index[k], w.read(x.index[k]) - by * (W)x.value[k]);
}

template <class T> SparseRow<T> sparse_row(const SparseBlock<T> &b, int i) {
    uint32_t at = b.start[i];
    return {b.index + at, b.value + at, b.start[i + 1] - at};
}

template <class T>
void margins(const SparseBlock<T> &rows, const EvenRows<T> &even, const double *w, double b,
             double *m) {
    if (even)
        return even.margins(w, b, m);
    for (int i = 0; i < rows.n; i++)
        m[i] = b + dot_sparse(sparse_row(rows, i), OwnWeights<const double>{w});
}

template <class T> void margins(const SparseBlock<T> &rows, const double *w, double b, double *m) {
    margins(rows, EvenRows<T>(rows), w, b, m);
}

template <class T>
void add_gradient(const SparseBlock<T> &rows, const EvenRows<T> &even, const double *r,
                  double *g) {
    if (even)
        return even.add_gradient(r, g);
    for (int i = 0; i < rows.n; i++) {
        if (r[i] == 0)
            continue;
        SparseRow<T> row = sparse_row(rows, i);
        for (uint32_t k = 0; k < row.n; k++)
            g[row.index[k]] += r[i] * row.value[k];
    }
}

template <class T> void add_gradient(const SparseBlock<T> &rows, const double *r, double *g) {
    add_gradient(rows, EvenRows<T>(rows), r, g);
}

// The number of rows per chunk of a sparse gradient. Each chunk needs d sums, so there are few
// chunks, to keep adding them up cheap. If only losses are wanted, a chunk needs one sum and there
// may be many. The number depends on the group's rows alone.
inline int64_t sparse_chunk_rows(const tusk_group &group, bool loss_only) {
    int64_t each = loss_only ? 1 << 16 : 4 * (int64_t)group.dim + 1;
    int64_t chunks = std::clamp<int64_t>(tk_nonzeros(&group) / each, 2, loss_only ? 1 << 16 : 64);
    return std::max<int64_t>(256, (group.n_rows + chunks - 1) / chunks);
}

template <class T> int sparse_gradient(const tk_pass *pass, const double *weights, double *out) {
    int64_t d = pass->groups[0].dim, width = pass->loss_only ? 2 : d + 3;
    auto chunks = make_chunks(
        pass, [&](int64_t g) { return sparse_chunk_rows(pass->groups[g], pass->loss_only); });
    return sum_over_chunks(pass, chunks, width, out, [&](const Chunk &c, double *acc) {
        const double *w = weights + c.group * (d + 1);
        const Loss loss(pass, c.group);
        Labels labels(pass, c.group);
        const bool flat = all_zero(w, d);
        alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS];
        for_sparse_blocks<T>(c, BLOCK_ROWS, [&](const SparseBlock<T> &rows) {
            if (cancelled(pass->cancel_mark))
                return;
            const EvenRows<T> even(rows);
            if (flat)
                std::fill(m, m + rows.n, w[d]);
            else
                margins(rows, even, w, w[d], m);
            acc[0] += evaluate(loss, labels, m, rows.y, rows.n, r, nullptr);
            acc[1] += weight_of(rows.y, rows.n);
            if (pass->loss_only)
                return;
            add_gradient(rows, even, r, acc + 2);
            acc[2 + d] += sum_block(r);
        });
    });
}

// The first d numbers of z = ((x - shift) * scale, 1) of one row; the caller sets the 1.
template <class T>
inline void to_z(const SparseBlock<T> &x, int i, int64_t d, const double *, const double *scale,
                 double *z) {
    std::fill(z, z + d, 0.0);
    SparseRow<T> row = sparse_row(x, i);
    for (uint32_t k = 0; k < row.n; k++)
        z[row.index[k]] += row.value[k] * scale[row.index[k]];
}

} // namespace tusk
