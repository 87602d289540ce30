// Trains the rows of one chunk by the multinomial loss log sum_k exp(m_k) - m_y. The weights of
// all classes of a feature are adjacent, and an entry's index is that of the first of them.
#pragma once

#include "../classes/softmax.hpp"
#include "chunk_training.hpp"

namespace tusk {

// m[k] += x . w_k for each class.
template <class T, class W>
void add_margins(const SparseRow<T> &x, Paged<W> w, int64_t n_classes, W *m) {
    for (uint32_t e = 0; e < x.n; e++) {
        W *one = &w.at(x.index[e]);
        if (e + 4 < x.n)
            __builtin_prefetch(&w.at(x.index[e + 4]), 1);
        const W value = (W)x.value[e];
        for (int64_t k = 0; k < n_classes; k++)
            m[k] += value * read_shared(one[k]);
    }
}

// w_k -= by[k] x for each class from the first-th on.
template <class T, class W>
void move_classes(const SparseRow<T> &x, Paged<W> w, int64_t first, int64_t n_classes,
                  const W *by) {
    for (uint32_t e = 0; e < x.n; e++) {
        W *one = &w.at(x.index[e]);
        const W value = (W)x.value[e];
        for (int64_t k = first; k < n_classes; k++)
            write_shared(one[k], read_shared(one[k]) - by[k] * value);
    }
}

// The losses of rows with a margin for each class, and their derivatives row by row, (n, classes).
class ClassMargins {
public:
    explicit ClassMargins(const tk_stored *job)
        : n(job->softmax->n_classes), first(job->reference), classes_(job->softmax, 0), rows_(n) {}

    const int64_t n, first; // number of classes, and the first one whose weights move
    std::vector<double> slopes;

    // fill(i, m) writes the margins of row i. Returns the sum of the losses.
    template <class Fill> double evaluate(const double *y, int64_t count, Fill &&fill) {
        std::vector<double> m((size_t)n);
        double total = 0;
        slopes.resize((size_t)(count * n));
        for (int64_t at = 0; at < count; at += BLOCK_ROWS) {
            const int here = (int)std::min<int64_t>(BLOCK_ROWS, count - at);
            for (int i = 0; i < here; i++) {
                fill(at + i, m.data());
                for (int64_t k = 0; k < n; k++)
                    rows_.of(k)[i] = m[(size_t)k];
            }
            total += rows_.settle(classes_, Targets{y + at, nullptr}, here);
            for (int i = 0; i < here; i++)
                for (int64_t k = 0; k < n; k++)
                    slopes[(size_t)((at + i) * n + k)] = rows_.of(k)[i];
        }
        return total;
    }

private:
    ClassSet classes_;
    ClassRows rows_;
};

// The intercepts of all classes, like OwnIntercept for one. That of the first class is fixed.
class OwnIntercepts {
public:
    explicit OwnIntercepts(tk_stored *job)
        : shared_(job->intercepts), mine_((size_t)job->softmax->n_classes), before_(mine_.size()) {
        for (size_t k = 0; k < mine_.size(); k++)
            mine_[k] = before_[k] = read_shared(shared_[k]);
        merge_rows_ =
            (int64_t)std::min(32.0, 1 / (SPARSE_INTERCEPT * job->step * job->pass->threads));
    }
    ~OwnIntercepts() { merge(); }

    double value(int64_t k) const { return mine_[(size_t)k]; }

    // slopes: (rows, classes)
    void move(double by, const double *slopes, int64_t rows) {
        for (int64_t i = 0; i < rows; i++)
            for (size_t k = 1; k < mine_.size(); k++)
                mine_[k] -= by * slopes[(size_t)i * mine_.size() + k];
        rows_ += rows;
        if (rows_ >= merge_rows_)
            merge();
    }

private:
    void merge() {
        for (size_t k = 1; k < mine_.size(); k++) {
            double change = mine_[k] - before_[k];
            mine_[k] = before_[k] =
                std::atomic_ref(shared_[k]).fetch_add(change, std::memory_order_relaxed) + change;
        }
        rows_ = 0;
    }

    double *shared_;
    std::vector<double> mine_, before_;
    int64_t merge_rows_, rows_ = 0;
};

// The margins of rows by a chunk's weights.
template <class T, class W, class Intercept>
auto margins_by(const SparseRow<T> *rows, Paged<W> w, double scale, int64_t n_classes,
                std::vector<W> &dot, Intercept &&intercept) {
    return [=, &dot](int64_t i, double *m) {
        std::fill(dot.begin(), dot.end(), W(0));
        add_margins(rows[i], w, n_classes, dot.data());
        for (int64_t k = 0; k < n_classes; k++)
            m[k] = intercept(k) + scale * dot[(size_t)k];
    };
}

// Moves the weights of a batch's rows by `by` times their derivatives.
template <class T, class W>
void move_class_rows(const SparseBatch<T> &batch, const ClassMargins &of, double by, Paged<W> w,
                     std::vector<W> &along) {
    for (int64_t i = 0; i < batch.n; i++) {
        for (int64_t k = 0; k < of.n; k++)
            along[(size_t)k] = (W)(by * of.slopes[(size_t)(i * of.n + k)]);
        move_classes(batch.rows[i], w, of.first, of.n, along.data());
    }
}

// See train_runs.
template <class T, class W>
bool train_class_runs(Training &all, Stop &stop, const std::vector<Run> &runs, Paged<W> w) {
    tk_stored *job = all.job;
    tk_epoch e = schedule_of(job);
    Schedule schedule(&e, 0, all.rows);
    OwnIntercepts b(job);
    OwnClock clock(all.clock);
    ClassMargins of(job);
    std::vector<W> dot((size_t)of.n);
    double sum_of_losses = 0;
    const double longest = all.clock.longest_step();
    int64_t row = stop.row, rows = 0, batches = 0;
    bool broken = false;
    auto intercept = [&](int64_t k) { return b.value(k); };
    auto step_along = [&](const SparseBatch<T> &batch) {
        auto margins = margins_by(batch.rows, w, clock.scale(), of.n, dot, intercept);
        sum_of_losses += of.evaluate(batch.y, batch.n, margins);
        double step = (double)batch.n / job->batch_size * std::min(schedule.at(row), longest);
        double by = clock.step(step, batch.n) / (double)batch.n;
        move_class_rows(batch, of, by, w, dot);
        if (job->pass->fit_intercept)
            b.move(SPARSE_INTERCEPT * step / (double)batch.n, of.slopes.data(), batch.n);
        rows += batch.n;
    };
    for_sparse_batches<T>(runs, 0, runs.size(), job->batch_size, StepWeights(),
                          [&](const SparseBatch<T> &batch) {
                              bool done = batches < stop.batches;
                              if (!done && !broken)
                                  broken = all.clock.span_is_over() || all.visits.stopped();
                              if (!done && !broken)
                                  step_along(batch);
                              batches += done || !broken;
                              row += batch.n;
                          });
    stop.batches = batches;
    all.visits.add(sum_of_losses, rows);
    return !broken;
}

// See loss_of_runs.
template <class T, class W>
double loss_of_class_runs(const tk_stored *job, Visits &visits, const std::vector<Run> &runs,
                          double scale, Paged<W> w) {
    ClassMargins of(job);
    std::vector<W> dot((size_t)of.n);
    double sum = 0;
    for_sparse_batches<T>(
        runs, 0, runs.size(), BLOCK_ROWS, StepWeights(), [&](const SparseBatch<T> &batch) {
            if (!visits.stopped())
                sum += of.evaluate(batch.y, batch.n,
                                   margins_by(batch.rows, w, scale, of.n, dot,
                                              [&](int64_t k) { return job->intercepts[k]; }));
        });
    return sum;
}

template <class T, class W>
bool train_any_runs(Training &all, Stop &stop, const std::vector<Run> &runs, Paged<W> w) {
    return all.job->softmax ? train_class_runs<T, W>(all, stop, runs, w)
                            : train_runs<T, W>(all, stop, runs, w);
}
template <class T, class W>
double loss_of_any_runs(const tk_stored *job, Visits &visits, const std::vector<Run> &runs,
                        double scale, Paged<W> w) {
    return job->softmax ? loss_of_class_runs<T, W>(job, visits, runs, scale, w)
                        : loss_of_runs<T, W>(job, visits, runs, scale, w);
}

} // namespace tusk
