// Parts shared by the stochastic algorithms: the step schedule, and the updates of dense and
// sparse models.
//
// In coordinates of z = (x - shift) * scale the update is v -= step (mean gradient), followed by
// the proximal step of the penalties. We apply it to w = v * scale directly, so that rows need not
// be transformed:
//   w -= step scale^2 (g - shift s) / n,   v_d -= step s / n,   s = sum of the derivatives,
//   w  = sign(w) max(|w| - step l1 scale^2, 0) / (1 + step l2 scale^2),
// The last line is the proximal step of both penalties. It is stable for any l2 and any units of
// the features.
#pragma once

#include <cmath>
#include <vector>

#include "api.h"
#include "order.hpp"

namespace tusk {

// step / t^(power/2) with t = 1 + epochs done. Powers 0, 1, 2 and 4 give a constant step,
// 1/sqrt(t), 1/t and 1/t^2.
struct Schedule {
    double first;
    int power;
    double done;
    int64_t before;
    double per_row;

    Schedule(const tk_epoch *e, int64_t g, int64_t rows)
        : first(e->step[g]), power(e->power), done(1 + e->epochs_done), before(e->rows_before),
          per_row(1.0 / std::max<int64_t>(1, e->rows_of_all ? e->rows_of_all : rows)) {}

    double at(int64_t row) const {
        double t = done + (double)(before + row) * per_row;
        switch (power) {
        case 0:
            return first;
        case 1:
            return first / std::sqrt(t);
        case 2:
            return first / t;
        default:
            return first / (t * t);
        }
    }
};

inline double shrink(double w, double by) {
    return w > by ? w - by : w < -by ? w + by : 0;
}

inline v8d shrink(v8d w, v8d by) {
    return select<v8d>(w > by, w - by, select<v8d>(w < -by, w + by, splat(0.0)));
}

// One dense model in training. All arrays have padded(d) items. scale2 is zero from d on, so w
// stays zero there.
class DenseModel {
public:
    std::vector<double> w, gradient;
    double v_d; // the intercept in coordinates of z
    double b;   // the intercept in coordinates of x: v_d - w.shift

    DenseModel(const tk_epoch *e, int64_t g, int64_t d, bool fit_intercept, const double *v)
        : w(padded(d)), gradient(padded(d)), v_d(v[d]), shift_(padded(d)), scale_(padded(d)),
          scale2_(padded(d)), d_(d), l1_(e->l1), l2_(e->l2), fit_(fit_intercept) {
        double centre = 0;
        for (int64_t k = 0; k < d; k++) {
            shift_[k] = e->shift[g * d + k];
            scale_[k] = e->scale[g * d + k];
            scale2_[k] = scale_[k] * scale_[k];
            w[k] = v[k] * scale_[k];
            centre += w[k] * shift_[k];
        }
        b = v_d - centre;
    }

    // Takes one step along `gradient` and sets it to zero. `gradient` is the sum of r_i x_i over n
    // rows, and s is the sum of r_i. extra: a constant gradient to add, in coordinates of z
    // (SVRG's anchor), or NULL.
    void update(double step, double s, double n, const double *extra) {
        v8d centre = splat(0.0);
        double per_row = step / n;
        for (int64_t k = 0; k < (int64_t)w.size(); k += LANES) {
            v8d q = load(&scale2_[k]), x = load(&w[k]), c = load(&shift_[k]);
            x -= q * per_row * (load(&gradient[k]) - c * s);
            if (extra)
                x -= step * load(&scale_[k]) * load(extra + k);
            if (l1_ > 0)
                x = shrink(x, step * l1_ * q);
            if (l2_ > 0)
                x /= 1.0 + step * l2_ * q;
            store(&w[k], x);
            store(&gradient[k], splat(0.0));
            centre += c * x;
        }
        if (fit_)
            v_d -= per_row * s + (extra ? step * extra[w.size()] : 0);
        b = v_d - sum(centre);
    }

    void write(double *v) const {
        for (int64_t k = 0; k < d_; k++)
            v[k] = scale_[k] > 0 ? w[k] / scale_[k] : 0;
        v[d_] = v_d;
    }

private:
    std::vector<double> shift_, scale_, scale2_;
    int64_t d_;
    double l1_, l2_;
    bool fit_;
};

// The mean of the iterates. It is closer to the optimum than the last iterate (Polyak and
// Juditsky, 1992).
class RunningMean {
public:
    explicit RunningMean(int64_t d) : sum_(padded(d)), d_(d) {}

    void add(const RunningMean &other) {
        for (int64_t k = 0; k < (int64_t)sum_.size(); k++)
            sum_[k] += other.sum_[k];
        v_d_ += other.v_d_;
        n_ += other.n_;
    }

    void add(const DenseModel &m) {
        for (int64_t k = 0; k < (int64_t)sum_.size(); k += LANES)
            store(&sum_[k], load(&sum_[k]) + load(&m.w[k]));
        v_d_ += m.v_d;
        n_++;
    }

    // Adds n iterates, given by their sums.
    void add(const double *sum, double sum_d, double n) {
        for (int64_t k = 0; k < (int64_t)sum_.size(); k++)
            sum_[k] += sum[k];
        v_d_ += sum_d;
        n_ += n;
    }

    void write(const double *scale, double *v) const {
        for (int64_t k = 0; k < d_; k++)
            v[k] = scale[k] > 0 && n_ ? sum_[k] / n_ / scale[k] : 0;
        v[d_] = n_ ? v_d_ / n_ : 0;
    }

private:
    std::vector<double> sum_;
    int64_t d_;
    double v_d_ = 0, n_ = 0;
};

// Penalising every weight at every step would cost d operations. On sparse rows a weight is
// penalised only by rows that have its feature, and the penalty is divided by the feature's
// frequency. In expectation the objective is the same (HOGWILD!, 2011, section 3).
struct SparsePenalty {
    double l1, l2;
    const double *frequency; // share of rows with the feature
    bool any;

    SparsePenalty(const tk_epoch *e, int64_t g, int64_t d)
        : l1(e->l1), l2(e->l2), frequency(e->frequency ? e->frequency + g * d : nullptr),
          any(frequency && (l1 > 0 || l2 > 0)) {}

    // The penalty's step on feature id for one row. The l2 part is implicit, so that rare features
    // cannot overshoot.
    double apply(double w, double step, int32_t id, double scale2) const {
        double each = step * scale2 / frequency[id];
        double next = w / (1 + each * l2);
        // Without l1 we skip shrink: it branches on signs, which processors predict badly.
        return l1 > 0 ? shrink(next, each * l1 / (1 + each * l2)) : next;
    }
};

// Sparse rows move each feature's weight rarely, but the intercept at every step. With the same
// step size the intercept's noise would drown the model. scikit-learn's SGD uses the same factor.
constexpr double SPARSE_INTERCEPT = 0.01;

// Scaling and penalty of a sparse model's updates. Most models have neither.
struct SparseRules {
    const double *scale; // NULL: all scales are 1
    SparsePenalty penalty;

    SparseRules(const tk_epoch *e, int64_t g, int64_t d)
        : scale(e->scale + g * d), penalty(e, g, d) {
        if (std::all_of(scale, scale + d, [](double s) { return s == 1.0; }))
            scale = nullptr;
    }

    bool plain() const { return !scale && !penalty.any; }

    // The weight after w -= by * scale^2 and its share of the penalty.
    double apply(double w, double by, double step, int32_t id) const {
        double scale2 = scale ? scale[id] * scale[id] : 1.0;
        double next = w - by * scale2;
        return penalty.any ? penalty.apply(next, step, id, scale2) : next;
    }
};

// One sparse model that one thread trains. W is float where the gradient's noise exceeds float's
// rounding error.
template <class W> struct SparseModel {
    LookedUp<W> w;
    double b;
    SparseRules rules;

    SparseModel(const tk_epoch *e, int64_t g, int64_t d, const double *v)
        : w(d), b(v[d]), rules(e, g, d) {
        for (int64_t k = 0; k < d; k++)
            w[k] = (W)(rules.scale ? v[k] * rules.scale[k] : v[k]);
    }

    // Takes one row's step, w -= by * scale^2 x, and its share of the penalty.
    template <class T> void update(const SparseRow<T> &x, double step, double by) {
        if (rules.plain()) {
            move_along(x, (W)by, OwnWeights<W>{w.data()});
            return;
        }
        for (uint32_t k = 0; k < x.n; k++)
            w[x.index[k]] = (W)rules.apply(w[x.index[k]], by * x.value[k], step, x.index[k]);
    }

    // The same. Adds share times the decrease of each weight to `taken`.
    template <class T>
    void update(const SparseRow<T> &x, double step, double by, double share, W *taken) {
        bool plain = rules.plain();
        for (uint32_t k = 0; k < x.n; k++) {
            W before = w[x.index[k]];
            W next = plain ? before - (W)by * (W)x.value[k]
                           : (W)rules.apply(before, by * x.value[k], step, x.index[k]);
            w[x.index[k]] = next;
            taken[x.index[k]] += (W)share * (before - next);
        }
    }

    void write(double *v) const {
        const double *scale = rules.scale;
        for (size_t k = 0; k < w.size(); k++)
            v[k] = !scale ? w[k] : scale[k] > 0 ? w[k] / scale[k] : 0;
        v[w.size()] = b;
    }
};

// The mean of a sparse model's iterates over the second half of an epoch (Rakhlin, Shamir and
// Sridharan, Making gradient descent optimal for strongly convex stochastic optimization, 2012).
// It is computed from the last iterate by adding back a share of each step, so that a step touches
// only the weights that it moves.
template <class W> class LateMean {
public:
    LookedUp<W> taken;
    double taken_b = 0;

    // rows: number in the group, or in the part of it that is trained here.
    LateMean(const tk_epoch *e, int64_t rows, int64_t d)
        : taken(d), first_((e->rows_of_all ? e->rows_of_all : rows) / 2 - e->rows_before),
          rows_((e->rows_of_all ? e->rows_of_all : rows) - e->rows_before) {}

    bool begun(int64_t row) const { return row > first_; }

    // The share of the mean's iterates that come before the step at this row.
    double share(int64_t row) const {
        return (double)(row - first_) / (double)std::max<int64_t>(rows_ - first_, 1);
    }

    // Overwrites the model.
    void write(SparseModel<W> &model, double *average) const {
        for (size_t k = 0; k < taken.size(); k++)
            model.w[k] += taken[k];
        model.b += taken_b;
        model.write(average);
    }

private:
    int64_t first_, rows_;
};

} // namespace tusk
