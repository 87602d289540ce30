// The parts of every sparse pass: margins and gradient. Weights are looked up by feature id. The
// values of repeated ids add up.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "../shared/rows.hpp"
#include "../shared/values.hpp"
#include "dense.hpp"

namespace tusk {

// Margins and gradient of a block of sparse rows with equally many entries, such as rows of
// numbers and categories. These begin with the same ids: the entries of the numbers are one
// vector, whose gradient is summed in a register. The number of other entries is the same in each
// row, so that compilers unroll the loop over them.

template <class T> class EvenRows {
public:
    static constexpr uint32_t MOST = 8; // other entries of a row

    explicit EvenRows(const SparseBlock<T> &rows)
        : n_(rows.n), entries_(rows.n ? rows.start[1] - rows.start[0] : 0),
          index_(rows.index + rows.start[0]), value_(rows.value + rows.start[0]) {
        even_ = entries_ && all_as_long(rows.start);
        if (!even_)
            return;
        first_ = index_[0];
        while (run_ < std::min<uint32_t>(entries_, LANES) && index_[run_] == first_ + (int)run_)
            run_++;
        shorten_run();
        if (run_ < 2)
            run_ = 0;
        even_ = entries_ - run_ <= MOST;
    }
    explicit operator bool() const { return even_; }

    // m[i] = b + x[i] . w
    void margins(const double *w, double b, double *m) const {
        begin_margins(w, b, m);
        by_others([&]<uint32_t M>() { add_margins<M>(w, m); });
    }
    // g += sum r[i] x[i]
    void add_gradient(const double *r, double *g) const {
        by_others([&]<uint32_t M>() { add_gradient<M>(r, g); });
    }

private:
    bool all_as_long(const uint32_t *start) const {
        uint32_t other = 0;
        for (int i = 0; i < n_; i++)
            other |= (start[i + 1] - start[i]) ^ entries_;
        return !other;
    }

    // Whether eight entries of row i may be read though it may have fewer.
    bool whole(int i) const { return (uint32_t)(n_ - i) * entries_ >= LANES; }

    void shorten_run() {
        using v8n = int32_t __attribute__((vector_size(32)));
        const v8n expected = v8n{0, 1, 2, 3, 4, 5, 6, 7} + first_;
        v8n others{};
        int i = 0;
        for (; i < n_ && whole(i); i++) {
            v8n ids;
            std::memcpy(&ids, index_ + (size_t)i * entries_, sizeof ids);
            others |= ids ^ expected;
        }
        int32_t other[LANES];
        std::memcpy(other, &others, sizeof other);
        for (uint32_t k = 0; k < run_; k++)
            if (other[k])
                run_ = k;
        for (; i < n_; i++)
            for (uint32_t k = 0; k < run_; k++)
                if (index_[(size_t)i * entries_ + k] != first_ + (int)k)
                    run_ = k;
    }

    template <class Body> void by_others(Body &&body) const {
        switch (entries_ - run_) {
        case 0:
            return body.template operator()<0>();
        case 1:
            return body.template operator()<1>();
        case 2:
            return body.template operator()<2>();
        case 3:
            return body.template operator()<3>();
        case 4:
            return body.template operator()<4>();
        case 5:
            return body.template operator()<5>();
        case 6:
            return body.template operator()<6>();
        case 7:
            return body.template operator()<7>();
        default:
            return body.template operator()<MOST>();
        }
    }

    // The first entries of row i. Lanes beyond the run are finite, but belong to other entries.
    v8d leading(int i) const {
        const T *x = value_ + (size_t)i * entries_;
        return whole(i) ? load(x) : load_tail(x, (int)run_);
    }

    // The part of the margins of rows i to i + 7 due to the run, for the first n rows only.
    v8d leading_margins(v8d w, int i, int n) const {
        v8d products[LANES];
        if (n == LANES && whole(i + n - 1))
            for (int k = 0; k < LANES; k++)
                products[k] = w * load(value_ + (size_t)(i + k) * entries_);
        else
            for (int k = 0; k < LANES; k++)
                products[k] = k < n ? w * leading(i + k) : v8d{};
        return sum_each(products);
    }

    // m[i] = b + the part of x[i] . w due to the run
    void begin_margins(const double *w, double b, double *m) const {
        const v8d own = run_ ? load_tail(w + first_, (int)run_) : v8d{};
        alignas(64) double sums[LANES] = {0};
        for (int i = 0; i < n_; i += LANES) {
            const int n = std::min(LANES, n_ - i);
            if (run_)
                store(sums, leading_margins(own, i, n));
            for (int k = 0; k < n; k++)
                m[i + k] = b + sums[k];
        }
    }

    // m[i] += the other entries of x[i] . w
    template <uint32_t M> void add_margins(const double *w, double *m) const {
        const int32_t *index = index_ + run_;
        const T *value = value_ + run_;
        for (int i = 0; i < n_; i++, index += entries_, value += entries_) {
            double sum = m[i];
#pragma GCC unroll 8
            for (uint32_t a = 0; a < M; a++)
                sum += (double)value[a] * w[index[a]];
            m[i] = sum;
        }
    }

    template <uint32_t M> void add_gradient(const double *r, double *g) const {
        v8d sums{};
        const int32_t *index = index_ + run_;
        const T *value = value_ + run_;
        for (int i = 0; i < n_; i++, index += entries_, value += entries_) {
            const double by = r[i];
            if (run_)
                sums += by * leading(i);
#pragma GCC unroll 8
            for (uint32_t a = 0; a < M; a++)
                g[index[a]] += by * (double)value[a];
        }
        double each[LANES];
        store(each, sums);
        for (uint32_t k = 0; k < run_; k++)
            g[first_ + (int)k] += each[k];
    }

    int n_;
    uint32_t entries_,
        run_ = 0; // of each row: all, and those with the ids first_, first_ + 1, ...
    int32_t first_ = 0;
    const int32_t *index_;
    const T *value_;
    bool even_;
};

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

// m[i] = b + x[i] . w. In sparse.cpp, because its loops are long in machine code.
template <class T>
void margins(const SparseBlock<T> &rows, const EvenRows<T> &even, const double *w, double b,
             double *m);

template <class T> void margins(const SparseBlock<T> &rows, const double *w, double b, double *m) {
    margins(rows, EvenRows<T>(rows), w, b, m);
}

// g += sum r[i] x[i]
template <class T>
void add_gradient(const SparseBlock<T> &rows, const EvenRows<T> &even, const double *r, double *g);

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
    std::vector<char> all_flat; // by group: chunks are many, and weights may be
    for (int64_t g = 0; g < pass->n_groups; g++)
        all_flat.push_back(all_zero(weights + g * (d + 1), d));
    return sum_over_chunks(pass, chunks, width, out, [&](const Chunk &c, double *acc) {
        const double *w = weights + c.group * (d + 1);
        const Loss loss(pass, c.group);
        Labels labels(pass, c.group);
        const bool flat = all_flat[c.group];
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
