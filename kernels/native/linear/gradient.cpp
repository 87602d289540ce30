// Loss and gradient in one pass over the rows: f(w) = sum l(m_i) with m_i = w.x_i + b, df/dw = sum
// l'(m_i) x_i, df/db = sum l'(m_i).
#include <algorithm>
#include <cstdint>
#include <vector>

#include "../shared/common/rows.hpp"
#include "api.h"
#include "dense.hpp"
#include "sparse.hpp"

namespace tusk {
namespace {

// Layout of one group's sums.
enum { LOSS = 0, ROWS = 1, GRADIENT = 2 };

// The sums of one group's rows, block by block.
class GroupSums {
public:
    GroupSums(const tk_pass *pass, int64_t group, const PaddedWeights &weights)
        : loss_(pass, group), labels_(pass, group), d_(pass->groups[0].dim), w_(weights.of(group)),
          b_(weights.intercept(group)), loss_only_(pass->loss_only), flat_(all_zero(w_, d_)),
          large_(d_ > SMALL ? padded(d_) : 0, 0.0) {
        std::fill_n(small_, std::min(padded(d_), SMALL), 0.0);
    }

    template <class Rows> void add(const Rows &x, const Targets &y, int n) {
        alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS];
        if (flat_)
            std::fill(m, m + n, b_);
        else
            margins(x, n, d_, w_, b_, m);
        rows_ += weight_of(y, n);
        total_ += evaluate(loss_, labels_, m, y, n, r, nullptr);
        if (loss_only_)
            return;
        add_gradient(x, n, d_, r, gradient());
        intercept_ += sum_block(r);
    }

    void add_to(double *out) {
        out[LOSS] += total_;
        out[ROWS] += rows_;
        if (loss_only_)
            return;
        for (int64_t k = 0; k < d_; k++)
            out[GRADIENT + k] += gradient()[k];
        out[GRADIENT + d_] += intercept_;
    }

private:
    static constexpr int64_t SMALL = 256; // sums that need no allocation of their own

    double *gradient() { return large_.empty() ? small_ : large_.data(); }

    const Loss loss_;
    const Labels labels_;
    const int64_t d_;
    const double *w_;
    const double b_;
    const bool loss_only_, flat_;
    double total_ = 0, intercept_ = 0, rows_ = 0;
    alignas(64) double small_[SMALL];
    std::vector<double> large_;
};

// A block of rows converted to doubles that begin at cache lines, since they are read several
// times. A thread keeps its memory, unless rows are wide.
class Widened {
public:
    explicit Widened(int64_t d) : d_(d), width_(padded(d)) {
        const size_t size = BLOCK_ROWS * width_ + LANES;
        std::vector<double> &all = d > KEPT ? own_ : kept();
        if (all.size() < size)
            all.resize(size);
        double *first = all.data();
        while ((uintptr_t)first % (LANES * sizeof(double)))
            first++;
        for (int64_t i = 0; i < BLOCK_ROWS; i++)
            rows_[i] = first + i * width_;
    }

    template <class Rows> Gathered<double> of(const Rows &x, int n) {
        for (int i = 0; i < n; i++)
            std::copy_n(x(i), d_, rows_[i]);
        return {rows_};
    }

private:
    static constexpr int64_t KEPT = 256; // features of rows whose memory is kept

    static std::vector<double> &kept() {
        static thread_local std::vector<double> all;
        return all;
    }

    const int64_t d_, width_;
    std::vector<double> own_;
    double *rows_[BLOCK_ROWS];
};

template <class T> int common_gradient(const tk_pass *pass, const PaddedWeights &w, double *out) {
    const int64_t d = pass->groups[0].dim, sums = pass->loss_only ? (int64_t)GRADIENT : d + 3;
    auto add = [&](const Chunk &c, const std::vector<int64_t> &groups, double *acc) {
        std::vector<GroupSums> each;
        each.reserve(groups.size());
        for (int64_t group : groups)
            each.emplace_back(pass, group, w);
        Widened block(d);
        for_dense_blocks<T>(c, d, block_rows<T>(d), [&](const auto &x, const Targets &y, int n) {
            const Gathered<double> rows = block.of(x, n);
            for (GroupSums &one : each)
                one.add(rows, y, n);
        });
        for (size_t use = 0; use < each.size(); use++)
            each[use].add_to(acc + use * sums);
    };
    return CommonRows(pass, chunk_rows_for(pass)).sum(pass, sums, out, add);
}

template <class T> int dense_gradient(const tk_pass *pass, const double *weights, double *out) {
    const int64_t d = pass->groups[0].dim, sums = pass->loss_only ? (int64_t)GRADIENT : d + 3;
    PaddedWeights w(pass, weights);
    if (pass->common && pass->stride == 1)
        return common_gradient<T>(pass, w, out);
    auto add = [&](const Chunk &c, double *acc) {
        GroupSums own(pass, c.group, w);
        for_dense_blocks<T>(c, d, block_rows<T>(d),
                            [&](const auto &x, const Targets &y, int n) { own.add(x, y, n); });
        own.add_to(acc);
    };
    return sum_over_chunks(pass, make_chunks(pass, chunk_rows_for(pass)), sums, out, add);
}

} // namespace
} // namespace tusk

int tk_gradient(const tk_pass *pass, const double *weights, double *out) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            if (tusk_is_sparse(pass->groups[0].kind))
                return sparse_gradient<T>(pass, weights, out);
            return dense_gradient<T>(pass, weights, out);
        });
    });
}
