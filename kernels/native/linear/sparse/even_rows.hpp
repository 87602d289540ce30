// Margins and gradient of a block of sparse rows with equally many entries, such as rows of
// numbers and categories. These begin with the same ids: the entries of the numbers are one
// vector, whose gradient is summed in a register. The number of other entries is the same in each
// row, so that compilers unroll the loop over them.
#pragma once

#include <algorithm>

#include "../../shared/rows.hpp"
#include "../../shared/values.hpp"

namespace tusk {

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
        by_others([&]<uint32_t M>() { margins<M>(w, b, m); });
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

    template <uint32_t M> void margins(const double *w, double b, double *m) const {
        const v8d own = run_ ? load_tail(w + first_, (int)run_) : v8d{};
        const int32_t *index = index_ + run_;
        const T *value = value_ + run_;
        alignas(64) double sums[LANES] = {0};
        for (int i = 0; i < n_; i += LANES) {
            const int n = std::min(LANES, n_ - i);
            if (run_)
                store(sums, leading_margins(own, i, n));
            for (int k = 0; k < n; k++, index += entries_, value += entries_) {
                double sum = b + sums[k];
#pragma GCC unroll 8
                for (uint32_t a = 0; a < M; a++)
                    sum += (double)value[a] * w[index[a]];
                m[i + k] = sum;
            }
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

} // namespace tusk
