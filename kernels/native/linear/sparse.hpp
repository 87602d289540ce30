// The parts of every sparse pass: margins, gradient and, where rows are short, curvature. Weights
// are looked up by feature id. The values of repeated ids add up.
#pragma once

#include <cmath>
#include <type_traits>
#include <vector>

#include "dense.hpp"

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

template <class T> void margins(const SparseBlock<T> &rows, const double *w, double b, double *m) {
    for (int i = 0; i < rows.n; i++)
        m[i] = b + dot_sparse(sparse_row(rows, i), OwnWeights<const double>{w});
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

// Products of a panel's columns of type E that take the time of one product of two entries.
template <class E> constexpr int64_t ENTRY_PRODUCTS = 112 / sizeof(E);

// Whether the products of the entries of all rows cost less than those of p columns.
template <class E, class T> bool short_rows(const SparseBlock<T> &rows, int64_t p) {
    int64_t products = 0;
    for (int i = 0; i < rows.n; i++) {
        const int64_t entries = rows.start[i + 1] - rows.start[i] + 1;
        products += entries * (entries + 1) / 2;
    }
    return ENTRY_PRODUCTS<E> * products < rows.n * (p * (p + 1) / 2);
}

// Entries of z = (x * scale, 1) of one row in rising order of their ids, each of which occurs
// once. The 1 has the id d.
class ScaledRow {
public:
    template <class T> void read(const SparseRow<T> &row, const double *scale, int64_t d) {
        if (ids.size() <= row.n) {
            ids.resize(2 * row.n + 2);
            values.resize(2 * row.n + 2);
        }
        bool rising = true;
        for (uint32_t k = 0; k < row.n; k++) {
            const int32_t id = row.index[k];
            rising &= k == 0 || row.index[k - 1] < id;
            ids[k] = id;
            values[k] = (double)row.value[k] * scale[id];
        }
        n = row.n;
        if (!rising)
            sort();
        ids[n] = (int32_t)d;
        values[n++] = 1;
        run = 1;
        while (run < std::min<uint32_t>(n, LANES) && ids[run] == ids[0] + (int32_t)run)
            run++;
    }
    // The values of the first `run` entries, whose ids follow each other, as numbers' do.
    v8d leading() const {
        alignas(64) double first[LANES] = {};
        std::copy_n(values.begin(), run, first);
        return load(first);
    }

    uint32_t n = 0, run = 0;
    std::vector<int32_t> ids;
    std::vector<double> values;

private:
    // Sorts by insertion, because rows are short here, and adds up the values of repeated ids.
    void sort() {
        uint32_t kept = 0;
        for (uint32_t k = 0; k < n; k++) {
            const int32_t id = ids[k];
            const double value = values[k];
            uint32_t at = kept;
            while (at > 0 && ids[at - 1] >= id)
                at--;
            if (at < kept && ids[at] == id) {
                values[at] += value;
                continue;
            }
            std::copy_backward(ids.begin() + at, ids.begin() + kept, ids.begin() + kept + 1);
            std::copy_backward(values.begin() + at, values.begin() + kept,
                               values.begin() + kept + 1);
            ids[at] = id;
            values[at] = value;
            kept++;
        }
        n = kept;
    }
};

// Leading entries from which on their products are added as a vector.
constexpr uint32_t WORTH_TOGETHER = 3;

// Adds sum_i h[i] z_i z_i' to the lower triangle of `product`, whose rows have `width` numbers, a
// multiple of LANES. The upper triangle gets some of the products too.
template <class T>
void add_products(const SparseBlock<T> &rows, int64_t d, const double *h, const double *scale,
                  ScaledRow &z, int64_t width, double *product) {
    for (int i = 0; i < rows.n; i++) {
        if (h[i] == 0)
            continue;
        z.read(sparse_row(rows, i), scale, d);
        const int32_t *ids = z.ids.data();
        const double *values = z.values.data();
        const bool together = z.run >= WORTH_TOGETHER && ids[0] + LANES <= width;
        const v8d leading = z.leading();
        for (uint32_t a = 0; a < z.n; a++) {
            double *out = product + ids[a] * width;
            const double by = h[i] * values[a];
            if (together)
                store(out + ids[0], load(out + ids[0]) + by * leading);
            for (uint32_t b = together ? z.run : 0; b <= a; b++)
                out[ids[b]] += by * values[b];
        }
    }
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
            if (flat)
                std::fill(m, m + rows.n, w[d]);
            else
                margins(rows, w, w[d], m);
            acc[0] += evaluate(loss, labels, m, rows.y, rows.n, r, nullptr);
            acc[1] += weight_of(rows.y, rows.n);
            if (pass->loss_only)
                return;
            add_gradient(rows, r, acc + 2);
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
