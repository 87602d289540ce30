// The steps of rowwise.hpp, compiled for each width, type of values and loss, because a switch in
// each row costs a tenth of the speed. Each loss has its own file, so that they compile in
// parallel. The test whether weights are shared runs only every few rows.
#pragma once

#include "../shared/values.hpp"
#include "rowwise.hpp"
#include "step_weights.hpp"

namespace tusk {

// A model whose weights fit into NV vectors: d <= NV * LANES.
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

    // weight: of the row. The product with the step does not wait for the derivative.
    void move(const v8d *z, double step, double weight, double r) {
        double by = step * weight * r;
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

    [[gnu::always_inline]] void take(const double *from, double v) {
        for (int k = 0; k < NV; k++)
            w[k] = load(from + k * LANES);
        v_d = v;
    }

    [[gnu::always_inline]] void store_to(double *to) const {
        for (int k = 0; k < NV; k++)
            store(to + k * LANES, w[k]);
    }

    void give(RowSteps &steps) const {
        for (int k = 0; k < NV; k++) {
            store(steps.w + k * LANES, w[k]);
            store(steps.sum + k * LANES, sum_[k]);
        }
        steps.v_d = v_d;
        steps.sum_d = sum_d_;
    }

private:
    v8d shift_[NV], q_[NV], sum_[NV];
    double sum_d_ = 0, l1_, l2_;
    int tail_;
    bool fit_;
};

// If threads wrote after each row, they would mostly wait for each other's cache lines. So a
// thread writes its changes after a few rows, and the others see them with a short delay. The
// delay is bounded, as HOGWILD!'s convergence requires.
class Sharing {
public:
    Sharing(double *shared, int64_t d) : shared_(shared), d_(d) {}

    // Reads the shared weights into w, which is padded, and the intercept into v_d.
    void read(double *w, double *v_d) {
        for (int64_t k = 0; k < d_; k++)
            w[k] = before_[k] = read_shared(shared_[k]);
        *v_d = v_d_ = read_shared(shared_[d_]);
    }

    void write(const double *w, double v_d) {
        for (int64_t k = 0; k < d_; k++)
            write_shared(shared_[k], read_shared(shared_[k]) + (w[k] - before_[k]));
        write_shared(shared_[d_], read_shared(shared_[d_]) + (v_d - v_d_));
    }

private:
    double *shared_;
    int64_t d_;
    double v_d_ = 0, before_[TILE];
};

template <int NV, class T, class Exact>
void walk(RowSteps &steps, const Exact &exact, const std::vector<Run> &runs, size_t first,
          size_t last, int64_t row) {
    constexpr size_t AHEAD = 2 * STREAMS;
    const tk_pass *pass = steps.pass;
    alignas(64) double m[BLOCK_ROWS], y[BLOCK_ROWS], of_row[BLOCK_ROWS], unused[BLOCK_ROWS];
    const Targets targets{y, steps.weights.any() ? of_row : nullptr};
    const int64_t d = pass->groups[0].dim, begin = row;
    const Loss loss(pass);
    const Labels labels(pass, steps.g);
    const Schedule schedule(steps.epoch, steps.g, pass->groups[steps.g].n_rows);
    const RowModel<NV> start(steps.epoch, steps.g, d, pass->fit_intercept, steps.start);
    RowModel<NV> model = start; // no pointer to this local copy exists, so it stays in
                                // registers
    Sharing sharing(steps.shared, d);
    alignas(64) double now[NV * LANES] = {};
    int kept = 0;
    auto add_losses = [&] {
        steps.loss += evaluate(loss, labels, m, targets, kept, unused, nullptr);
        kept = 0;
    };
    for (size_t i = first; i < last && !cancelled(pass->cancel_mark); i++) {
        if (i + AHEAD < last)
            prefetch_run<T>(runs[i + AHEAD], d);
        const T *x = dense_row<T>(runs[i], d);
        const double *label = tusk_labels(runs[i].segment) + runs[i].first;
        const double *given = steps.weights.of(runs[i].segment);
        for (uint32_t at = 0; at < runs[i].n; at += RUN_ROWS) {
            uint32_t end = std::min(at + RUN_ROWS, runs[i].n);
            if (steps.shared) {
                double v_d;
                sharing.read(now, &v_d);
                model.take(now, v_d);
            }
            for (uint32_t k = at; k < end; k++, row++) {
                v8d z[NV];
                model.centre(x + k * d, z);
                m[kept] = model.margin(z);
                y[kept] = label[k];
                double r = derivative_of_row(exact, labels, m[kept], label[k]);
                of_row[kept] = given ? given[runs[i].first + k] * steps.weights.inverse() : 1;
                model.move(z, schedule.at(row), of_row[kept], r);
                if (++kept == BLOCK_ROWS)
                    add_losses();
            }
            if (steps.shared) {
                model.store_to(now);
                sharing.write(now, model.v_d);
            }
        }
    }
    if (kept)
        add_losses();
    const RowModel<NV> end = model;
    end.give(steps);
    steps.n = row - begin;
}

// Calls walk for the width and the type of the rows.
template <class Exact>
void walk_any(RowSteps &steps, const Exact &exact, const std::vector<Run> &runs, size_t first,
              size_t last, int64_t row) {
    with_storage(steps.pass, [&]<class T>(const T *) {
        for_tiles(steps.pass->groups[0].dim, [&]<int NV>(int64_t, int) {
            walk<NV, T>(steps, exact, runs, first, last, row);
        });
    });
}

} // namespace tusk
