// Dense and sparse rows for dual coordinate descent. A dense row is centred when it is read.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "../linear/numbered.hpp"
#include "../shared/pool.hpp"
#include "../shared/values.hpp"
#include "api.h"

namespace tusk {

// Eight values of x - shift, from `at` on. shift is padded with zeros, and so is w below.
template <class T> inline v8d centred(const T *x, const double *shift, int64_t at, int64_t d) {
    v8d v = d - at >= LANES ? load(x + at) : load_tail(x + at, (int)(d - at));
    return v - load(shift + at);
}

template <class T>
double dot_centred(const T *x, const double *shift, const double *w, int64_t d) {
    v8d a = splat(0.0), b = splat(0.0);
    int64_t k = 0;
    for (; k + 2 * LANES <= d; k += 2 * LANES) {
        a += centred(x, shift, k, d) * load(w + k);
        b += centred(x, shift, k + LANES, d) * load(w + k + LANES);
    }
    for (; k < d; k += LANES)
        a += centred(x, shift, k, d) * load(w + k);
    return sum(a + b);
}

// w += by (x - shift)
template <class T>
void move_centred(const T *x, const double *shift, double by, double *w, int64_t d) {
    for (int64_t k = 0; k < d; k += LANES)
        store(w + k, load(w + k) + by * centred(x, shift, k, d));
}

template <class T> class DenseRows {
public:
    using Row = const T *;

    DenseRows(int64_t d, const double *shift) : shift_(padded(d), 0.0), d_(d) {
        std::copy_n(shift, d, shift_.begin());
    }

    // Calls body(row) for each row of a chunk.
    template <class Body> void visit(const Chunk &c, Body &&body) const {
        for_dense_blocks<T>(c, d_, BLOCK_ROWS, [&](const auto &x, const double *, int n) {
            for (int i = 0; i < n; i++)
                body(x(i));
        });
    }

    // The length of the weights, padded.
    int64_t width() const { return padded(d_); }
    double dot(Row x, const double *w) const { return dot_centred(x, shift_.data(), w, d_); }
    void move(Row x, double by, double *w) const { move_centred(x, shift_.data(), by, w, d_); }
    double squared_length(Row x, std::vector<double> &) const {
        double total = 0;
        for (int64_t k = 0; k < d_; k++) {
            double z = (double)x[k] - shift_[k];
            total += z * z;
        }
        return total;
    }
    void expect(Row x) const {
        size_t bytes = std::min<size_t>(d_ * sizeof(T), 1024);
        for (size_t at = 0; at < bytes; at += 64)
            __builtin_prefetch((const char *)x + at);
    }

private:
    std::vector<double> shift_;
    int64_t d_;
};

template <class T> class SparseRows {
public:
    using Row = SparseRow<T>;

    SparseRows(int64_t d, const double *) : d_(d) {}

    template <class Body> void visit(const Chunk &c, Body &&body) const {
        for_sparse_blocks<T>(c, BLOCK_ROWS, [&](const SparseBlock<T> &block) {
            for (int i = 0; i < block.n; i++)
                body(sparse_row(block, i));
        });
    }

    int64_t width() const { return d_; }
    double dot(const Row &x, const double *w) const {
        return dot_sparse(x, OwnWeights<const double>{w});
    }
    void move(const Row &x, double by, double *w) const {
        move_along(x, -by, OwnWeights<double>{w});
    }
    // Adds the values of repeated ids before it squares them.
    double squared_length(const Row &x, std::vector<double> &sums) const {
        double total = 0;
        for (uint32_t k = 0; k < x.n; k++)
            sums[x.index[k]] += (double)x.value[k];
        for (uint32_t k = 0; k < x.n; k++) {
            total += sums[x.index[k]] * sums[x.index[k]];
            sums[x.index[k]] = 0;
        }
        return total;
    }
    void expect(const Row &x) const {
        uint32_t some = std::min<uint32_t>(x.n, 256);
        for (uint32_t k = 0; k < some; k += 16)
            __builtin_prefetch(x.index + k);
        for (uint32_t k = 0; k < some; k += 64 / sizeof(T))
            __builtin_prefetch(x.value + k);
    }

private:
    int64_t d_;
};

// The best intercept of the hinge for given weights.

constexpr int64_t SAMPLED = 1024; // breakpoints in the sample that brackets the best intercept
constexpr int64_t AROUND = 64;    // breakpoints of the sample on each side of its quantile

// Classes and margins of n rows, without intercept. cost: weights of the classes -1 and +1;
// weight: of the rows, NULL: 1.
struct HingeRows {
    const int8_t *sign;
    const double *margin;
    int64_t n;
    const double *cost;
    int64_t cancel_mark;
    const double *weight = nullptr;

    double cost_of(int64_t i) const { return cost[sign[i] > 0] * (weight ? weight[i] : 1); }
};

// Finds the intercept that minimises the sum of the losses for given margins. Row i's loss has its
// corner at the intercept y_i - m_i, where the slope of the sum rises by the row's weight. So the
// best intercept is a weighted quantile of these corners. If there are several, it is the one
// nearest to `b`. A sorted sample brackets it, so that only few corners must be sorted.
class BestIntercept {
public:
    explicit BestIntercept(const HingeRows &rows) : of_(rows), n_(rows.n) {}

    double find(double b) {
        double goal = 0;
        for (int64_t i = 0; i < n_; i++)
            goal += of_.sign[i] > 0 ? of_.cost_of(i) : 0.0;
        auto [from, to] = bracket(goal);
        double found = 0;
        if (among(from, to, goal, b, &found) || among(-HUGE_VAL, HUGE_VAL, goal, b, &found))
            return found;
        return b;
    }

private:
    HingeRows of_;
    int64_t n_;
    std::vector<std::pair<double, double>> near_;

    double place(int64_t i) const { return of_.sign[i] - of_.margin[i]; }

    std::pair<double, double> bracket(double goal) const {
        int64_t step = n_ / SAMPLED;
        if (step < 2)
            return {-HUGE_VAL, HUGE_VAL};
        std::vector<std::pair<double, double>> some;
        double total = 0, whole = 0;
        for (int64_t i = 0; i < n_; i += step) {
            some.emplace_back(place(i), of_.cost_of(i));
            total += of_.cost_of(i);
        }
        for (int64_t i = 0; i < n_; i++)
            whole += of_.cost_of(i);
        std::sort(some.begin(), some.end());
        double below = 0;
        int64_t at = 0, last = (int64_t)some.size() - 1;
        while (at < last && below < goal / whole * total)
            below += some[at++].second;
        return {at > AROUND ? some[at - AROUND].first : -HUGE_VAL,
                at + AROUND < last ? some[at + AROUND].first : HUGE_VAL};
    }

    // Whether the quantile lies between two corners. If so, *found gets the best intercept.
    bool among(double from, double to, double goal, double b, double *found) {
        near_.clear();
        double below = 0;
        for (int64_t i = 0; i < n_; i++) {
            if (i % 65536 == 0 && cancelled(of_.cancel_mark))
                return false;
            double at = place(i);
            if (at < from)
                below += of_.cost_of(i);
            else if (at <= to)
                near_.emplace_back(at, of_.cost_of(i));
        }
        std::sort(near_.begin(), near_.end());
        double slack = 1e-12 * goal;
        if (below > goal - slack && from > -HUGE_VAL)
            return false;
        for (size_t k = 0; k < near_.size(); k++) {
            below += near_[k].second;
            if (below < goal - slack)
                continue;
            bool flat = below <= goal + slack;
            if (flat && k + 1 == near_.size() && to < HUGE_VAL)
                return false;
            double end = flat && k + 1 < near_.size() ? near_[k + 1].first : near_[k].first;
            *found = std::min(std::max(b, near_[k].first), end);
            return true;
        }
        return false;
    }
};

} // namespace tusk
