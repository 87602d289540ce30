// Steps of one row each on a narrow dense model, whose weights stay in registers. A step depends
// on the one before it, so what counts is the way from weights to weights: one dot product, one
// derivative, one multiplication. All else, such as the losses, is put off and done for many rows
// at once.
//
// With z = x - shift the margin is w.z + v_d, and the step of epoch.hpp on one row with derivative
// r is w -= step r scale^2 z, v_d -= step r.
#pragma once

#include "epoch.hpp"

namespace tusk {

// Of NV vectors: d <= NV * LANES.
template <int NV> class RowModel {
public:
    v8d w[NV];
    double v_d;

    RowModel(const tk_epoch *e, int64_t g, int64_t d, bool fit_intercept, const double *v)
        : v_d(v[d]), l1_(e->l1), l2_(e->l2), tail_((int)(d - (NV - 1) * LANES)),
          fit_(fit_intercept) {
        alignas(64) double weight[NV * LANES] = {}, shift[NV * LANES] = {}, q[NV * LANES] = {};
        for (int64_t k = 0; k < d; k++) {
            double scale = e->scale[g * d + k];
            weight[k] = v[k] * scale;
            shift[k] = e->shift[g * d + k];
            q[k] = scale * scale;
        }
        for (int k = 0; k < NV; k++) {
            w[k] = load(weight + k * LANES);
            shift_[k] = load(shift + k * LANES);
            q_[k] = load(q + k * LANES);
            sum_[k] = splat(0.0);
        }
    }

    template <class T> void centre(const T *x, v8d *z) const {
        for (int k = 0; k < NV - 1; k++)
            z[k] = load(x + k * LANES) - shift_[k];
        z[NV - 1] = load_tail(x + (NV - 1) * LANES, tail_) - shift_[NV - 1];
    }

    double margin(const v8d *z) const {
        v8d s = z[0] * w[0];
        for (int k = 1; k < NV; k++)
            s += z[k] * w[k];
        return sum(s) + v_d;
    }

    void move(const v8d *z, double step, double r) {
        double by = step * r;
        for (int k = 0; k < NV; k++)
            w[k] -= by * (q_[k] * z[k]);
        if (l1_ > 0)
            for (int k = 0; k < NV; k++)
                w[k] = shrink(w[k], step * l1_ * q_[k]);
        if (l2_ > 0)
            for (int k = 0; k < NV; k++)
                w[k] /= 1.0 + step * l2_ * q_[k];
        if (fit_)
            v_d -= by;
        for (int k = 0; k < NV; k++)
            sum_[k] += w[k];
        sum_d_ += v_d;
    }

    // What the iterates sum up to.
    void give_sums(double *sum, double *sum_d) const {
        for (int k = 0; k < NV; k++)
            store(sum + k * LANES, sum_[k]);
        *sum_d = sum_d_;
    }

private:
    v8d shift_[NV], q_[NV], sum_[NV];
    double sum_d_ = 0, l1_, l2_;
    int tail_;
    bool fit_;
};

inline bool is_rowwise(const tk_epoch *e, int64_t d) {
    return e->batch_size == 1 && d > 0 && d <= TILE;
}

// Calls work.operator()<NV>() for a model of d <= TILE features.
template <class Work> void for_width(int64_t d, Work &&work) {
    for_tiles(d, [&]<int NV>(int64_t, int) { work.template operator()<NV>(); });
}

// Steps through the rows from runs[first] to runs[last - 1]; the number of steps. `row` is the
// first one's place in the epoch; before() and after() are called around at most RUN_ROWS steps.
template <int NV, class T, class Loss, class Before, class After>
int64_t walk_rows(RowModel<NV> &shared, const tk_pass *pass, const Schedule &schedule,
                  const Labels &labels, const Loss &loss, const std::vector<Run> &runs,
                  size_t first, size_t last, int64_t row, double *total, Before &&before,
                  After &&after) {
    constexpr size_t AHEAD = 2 * STREAMS;
    alignas(64) double m[BLOCK_ROWS], y[BLOCK_ROWS], unused[BLOCK_ROWS];
    int64_t d = pass->groups[0].dim, start = row;
    int kept = 0;
    RowModel<NV> model = shared; // a local one: nothing else can point at it
    auto add_losses = [&] {
        *total += evaluate(loss, labels, m, y, kept, unused, nullptr);
        kept = 0;
    };
    for (size_t i = first; i < last && !cancelled(pass->cancel_mark); i++) {
        if (i + AHEAD < last)
            prefetch_run<T>(runs[i + AHEAD], d);
        const T *x = dense_row<T>(runs[i], d);
        const double *label = tusk_labels(runs[i].segment) + runs[i].first;
        for (uint32_t at = 0; at < runs[i].n; at += RUN_ROWS) {
            uint32_t end = std::min(at + RUN_ROWS, runs[i].n);
            before(model);
            for (uint32_t k = at; k < end; k++, row++) {
                v8d z[NV];
                model.centre(x + k * d, z);
                m[kept] = model.margin(z);
                y[kept] = label[k];
                double r = derivative_of_row(loss, labels, m[kept], label[k]);
                model.move(z, schedule.at(row), r);
                if (++kept == BLOCK_ROWS)
                    add_losses();
            }
            after(model);
        }
    }
    if (kept)
        add_losses();
    shared = model;
    return row - start;
}

} // namespace tusk
