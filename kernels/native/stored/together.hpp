// Epochs whose workers train one chunk together, chunk after chunk in order, for payloads that
// travel from a chunk to the next one that needs them (kvstore/native/routes), and so come in this
// order only.
#pragma once

#include "class_training.hpp"

namespace tusk {

// The runs of a chunk for each worker, and the start of each among the epoch's rows.
struct Shares {
    Shares(const std::vector<Run> &runs, const Stop &stop, int32_t workers)
        : runs((size_t)workers), stops((size_t)workers, stop) {
        int64_t row = stop.row;
        for (size_t w = 0; w < stops.size(); w++) {
            stops[w].row = row;
            size_t first = runs.size() * w / stops.size();
            size_t end = runs.size() * (w + 1) / stops.size();
            this->runs[w].assign(runs.begin() + (ptrdiff_t)first, runs.begin() + (ptrdiff_t)end);
            for (const Run &run : this->runs[w])
                row += run.n;
        }
    }
    std::vector<std::vector<Run>> runs;
    std::vector<Stop> stops;
};

// Trains a chunk whose payloads are held. A span of the clock may end in between: then all workers
// pause, and the payloads move to the next span.
template <class T, class W> void train_together(Training &all, const Stop &stop, Held<W> &held) {
    int32_t workers = all.job->pass->threads;
    Shares shares(chunk_runs(all.job, stop), stop, workers);
    Paged<W> w = held.weights(all.job->chunks->list[stop.number]);
    for (bool whole = false; !whole && !all.visits.stopped();) {
        all.clock.begin_span();
        all.visits.settle(all.clock, 0, held);
        std::atomic<bool> broken{false};
        parallel_for(workers, workers, [&](int64_t k) {
            if (!train_any_runs<T, W>(all, shares.stops[k], shares.runs[k], w))
                broken = true;
        });
        whole = !broken;
    }
}

// Visits the chunks in their order; body(stop) works on the held payloads.
template <class W, class Body>
void visit_in_order(const tk_stored *job, Visits &visits, Held<W> &held,
                    const std::vector<Stop> &stops, bool changes, Body &&body) {
    for (const Stop &stop : stops) {
        const StoredChunk &chunk = job->chunks->list[stop.number];
        if (visits.stopped() || !visits.visit(0, stop.number, chunk.keys.data(),
                                              chunk.widths.data(), chunk.keys.size(), held, [&] {
                                                  body(stop);
                                                  return changes;
                                              }))
            return;
    }
}

template <class T, class W> int epoch_together(tk_stored *job) {
    Training all(job);
    Held<W> held;
    std::vector<Stop> stops = stops_of(job);
    for (Stop &stop : stops) {
        stop.row = all.rows;
        all.rows += job->chunks->list[stop.number].rows;
    }
    visit_in_order(job, all.visits, held, stops, true,
                   [&](const Stop &stop) { train_together<T, W>(all, stop, held); });
    all.clock.begin_span();
    job->time = all.clock.time();
    job->scale = all.clock.scale_at(job->time);
    return all.visits.code();
}

template <class T, class W> int loss_together(tk_stored *job) {
    Visits visits(job);
    Clock clock(job->l1, job->l2, job->time);
    Held<W> held;
    job->scale = clock.scale_at(job->time);
    int32_t workers = job->pass->threads;
    visit_in_order(job, visits, held, stops_of(job), false, [&](const Stop &stop) {
        visits.settle(clock, 0, held);
        const StoredChunk &chunk = job->chunks->list[stop.number];
        Shares shares(cut(chunk.pieces, PARTITION_ROWS), stop, workers);
        Paged<W> w = held.weights(chunk);
        parallel_for(workers, workers, [&](int64_t k) {
            double sum = loss_of_any_runs<T, W>(job, visits, shares.runs[k], job->scale, w);
            visits.add(sum, 0);
        });
        visits.add(0, chunk.rows);
    });
    return visits.code();
}

} // namespace tusk
