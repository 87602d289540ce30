// Rows wider than memory (wide.hpp) of several classes.
#pragma once

#include "chunk_training.hpp"
#include "class_training.hpp"

namespace tusk {

// Rows wider than memory: a row whose payloads do not fit together is trained by partial dot
// products, part after part of its keys (the vertical traversal of Qin, Torres, Rusu, VLDB 2017,
// section 4). The parts are visited once for the margin, and once more, backwards, for the update,
// so that the last part of the first pass is still in memory.

// Neighbouring keys of a wide chunk that fit into memory, and its entries in their payloads.
struct WidePart {
    size_t first, end;  // keys
    int64_t place;      // of the first key
    uint32_t at, count; // entries of the row
};

template <class T> class WideRow {
public:
    WideRow(const tk_stored *job, int64_t number)
        : number_(number), chunk_(job->chunks->list[number]) {
        for (const Run &p : chunk_.pieces) { // of the only row
            const uint32_t *start = tusk_row_starts(p.segment) + p.first;
            row_ = {tusk_indices(p.segment) + start[0],
                    (const T *)tusk_sparse_values(p.segment) + start[0], start[p.n] - start[0]};
            y = tusk_labels(p.segment)[p.first];
        }
        cut(job->chunks->cut);
    }

    // Calls body(frames, x, w) for each part in order, or backwards, with its frames, its entries
    // and its weights; it returns whether it changed them. Returns false if a visit failed.
    template <class W, class Body>
    bool each(Visits &visits, int32_t worker, bool backwards, Held<W> &held, Body &&body) {
        for (size_t i = 0; i < parts_.size(); i++) {
            const WidePart &part = parts_[backwards ? parts_.size() - 1 - i : i];
            index_.resize(part.count);
            for (uint32_t k = 0; k < part.count; k++)
                index_[k] = (int32_t)(row_.index[part.at + k] - part.place);
            SparseRow<T> x{index_.data(), row_.value + part.at, part.count};
            bool done =
                !visits.stopped() &&
                visits.visit(worker, number_, chunk_.keys.data() + part.first,
                             chunk_.widths.data() + part.first, part.end - part.first, held, [&] {
                                 return body(held.frames, x, held.weights(chunk_, part.first));
                             });
            if (!done)
                return false;
        }
        return true;
    }

    double y = 0;

private:
    void cut(const tk_cut &limits) {
        int64_t bytes = 0, place = 0;
        for (size_t k = 0; k < chunk_.keys.size(); k++) {
            int64_t more = (int64_t)chunk_.widths[k] * limits.weight_size + limits.frame_bytes;
            if (parts_.empty() || bytes + more > limits.most_bytes) {
                parts_.push_back({k, k, place, entry_from(place), 0});
                bytes = 0;
            }
            bytes += more;
            place += chunk_.pages_of(chunk_.widths[k]) << chunk_.shift;
            parts_.back().end = k + 1;
            parts_.back().count = entry_from(place) - parts_.back().at;
        }
    }

    uint32_t entry_from(int64_t place) const {
        return (uint32_t)(std::lower_bound(row_.index, row_.index + row_.n, place) - row_.index);
    }

    int64_t number_;
    const StoredChunk &chunk_;
    SparseRow<T> row_{};
    std::vector<WidePart> parts_;
    std::vector<int32_t> index_; // entries of the current part
};

// The margin of a wide row without the intercept; false if a visit failed. Payloads that it
// updates stay so until the update, which then makes the same step as in memory.
template <class T, class W>
bool wide_dot(WideRow<T> &row, Visits &visits, Clock &clock, int32_t worker, double scale,
              Held<W> &held, double *dot) {
    *dot = 0;
    return row.each(visits, worker, false, held,
                    [&](const auto &frames, const SparseRow<T> &x, Paged<W> w) {
                        for (tusk_frame *frame : frames)
                            clock.settle<W>(frame);
                        *dot += scale * dot_sparse(x, w);
                        return clock.l1 > 0 || clock.l2 > 0;
                    });
}

// Trains a wide chunk, whose one row is a batch. Returns whether it was trained.
template <class T, class W>
bool train_wide(Training &all, const Stop &stop, int32_t worker, Held<W> &held) {
    const tk_stored *job = all.job;
    const Loss loss(job->pass);
    Labels labels(job->pass, 0);
    tk_epoch e = schedule_of(job);
    Schedule schedule(&e, 0, all.rows);
    OwnIntercept b(all.job);
    OwnClock clock(all.clock);
    WideRow<T> row(job, stop.number);
    double dot = 0, r = 0;
    if (!wide_dot(row, all.visits, all.clock, worker, clock.scale(), held, &dot))
        return false;
    double lost =
        evaluate_stored_row<T>(job, all.visits, loss, labels, b.value() + dot, row.y, &r);
    double step = std::min(schedule.at(stop.row), all.clock.longest_step()) / job->batch_size;
    double by = clock.step(step, 1) * r;
    bool whole = row.each(all.visits, worker, true, held,
                          [&](const auto &, const SparseRow<T> &x, Paged<W> w) {
                              move_along(x, (W)by, w);
                              return true;
                          });
    if (!whole)
        return false;
    if (job->pass->fit_intercept)
        b.move(SPARSE_INTERCEPT * step * r, 1);
    all.visits.add(lost, 1);
    return true;
}

// Adds the loss of a wide chunk's row.
template <class T, class W>
void loss_of_wide(const tk_stored *job, Visits &visits, Clock &clock, const Stop &stop,
                  int32_t worker, Held<W> &held) {
    const Loss loss(job->pass);
    Labels labels(job->pass, 0);
    WideRow<T> row(job, stop.number);
    double dot = 0, r = 0;
    if (wide_dot(row, visits, clock, worker, job->scale, held, &dot))
        visits.add(
            evaluate_stored_row<T>(job, visits, loss, labels, job->intercept + dot, row.y, &r), 1);
}

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
