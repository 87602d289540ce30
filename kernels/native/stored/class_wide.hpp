// Rows wider than memory (wide.hpp) of several classes.
#pragma once

#include "class_training.hpp"
#include "wide.hpp"

namespace tusk {

// See wide_dot, for each class.
template <class T, class W>
bool wide_dots(WideRow<T> &row, Visits &visits, Clock &clock, int32_t worker, double scale,
               Held<W> &held, std::vector<double> &dots) {
    std::vector<W> part(dots.size());
    std::fill(dots.begin(), dots.end(), 0.0);
    return row.each(visits, worker, false, held,
                    [&](const auto &frames, const SparseRow<T> &x, Paged<W> w) {
                        for (tusk_frame *frame : frames)
                            clock.settle<W>(frame);
                        std::fill(part.begin(), part.end(), W(0));
                        add_margins(x, w, (int64_t)part.size(), part.data());
                        for (size_t k = 0; k < dots.size(); k++)
                            dots[k] += scale * part[k];
                        return clock.l1 > 0 || clock.l2 > 0;
                    });
}

// See train_wide.
template <class T, class W>
bool train_wide_classes(Training &all, const Stop &stop, int32_t worker, Held<W> &held) {
    tk_stored *job = all.job;
    tk_epoch e = schedule_of(job);
    Schedule schedule(&e, 0, all.rows);
    OwnIntercepts b(job);
    OwnClock clock(all.clock);
    ClassMargins of(job);
    WideRow<T> row(job, stop.number);
    std::vector<double> dots((size_t)of.n);
    if (!wide_dots(row, all.visits, all.clock, worker, clock.scale(), held, dots))
        return false;
    double lost = of.evaluate(&row.y, 1, [&](int64_t, double *m) {
        for (int64_t k = 0; k < of.n; k++)
            m[k] = b.value(k) + dots[(size_t)k];
    });
    double step = std::min(schedule.at(stop.row), all.clock.longest_step()) / job->batch_size;
    double by = clock.step(step, 1);
    std::vector<W> along(dots.size());
    for (size_t k = 0; k < along.size(); k++)
        along[k] = (W)(by * of.slopes[k]);
    bool whole = row.each(all.visits, worker, true, held,
                          [&](const auto &, const SparseRow<T> &x, Paged<W> w) {
                              move_classes(x, w, of.first, of.n, along.data());
                              return true;
                          });
    if (!whole)
        return false;
    if (job->pass->fit_intercept)
        b.move(SPARSE_INTERCEPT * step, of.slopes.data(), 1);
    all.visits.add(lost, 1);
    return true;
}

// See loss_of_wide.
template <class T, class W>
void loss_of_wide_classes(const tk_stored *job, Visits &visits, Clock &clock, const Stop &stop,
                          int32_t worker, Held<W> &held) {
    ClassMargins of(job);
    WideRow<T> row(job, stop.number);
    std::vector<double> dots((size_t)of.n);
    if (!wide_dots(row, visits, clock, worker, job->scale, held, dots))
        return;
    double lost = of.evaluate(&row.y, 1, [&](int64_t, double *m) {
        for (int64_t k = 0; k < of.n; k++)
            m[k] = job->intercepts[k] + dots[(size_t)k];
    });
    visits.add(lost, 1);
}

} // namespace tusk
