// SGD on a model in a store: HOGWILD! and HogBatch (see hogwild.cpp) on payloads that workers hold
// for one chunk at a time (Qin, Torres, Rusu, VLDB 2017, section 6). All workers write to the same
// frame of a key, so there is nothing to merge.

#include "class_training.hpp"
#include "class_wide.hpp"

// Epochs whose workers train one chunk together, chunk after chunk in order, for payloads that
// travel from a chunk to the next one that needs them (kvstore/native/routes), and so come in this
// order only.

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

namespace {

// A worker's next visit. If payloads are delivered, it draws one chunk ahead and announces it.
class Drawn {
public:
    Drawn(Training &all, Queue &queue, int32_t worker)
        : all_(all), queue_(queue), worker_(worker) {}
    ~Drawn() { all_.visits.expect(worker_, nullptr); }

    Stop *draw() { return next_ ? std::exchange(next_, nullptr) : queue_.draw(); }
    void look_ahead() {
        if (all_.visits.pushes() && (next_ = queue_.draw()))
            all_.visits.expect(worker_, &all_.job->chunks->list[next_->number]);
    }

private:
    Training &all_;
    Queue &queue_;
    int32_t worker_;
    Stop *next_ = nullptr;
};

// Visits chunks until none is left or the clock's span ends.
template <class T, class W> void train(Training &all, Queue &queue, int32_t worker) {
    Held<W> held;
    Drawn drawn(all, queue, worker);
    while (Stop *stop = drawn.draw()) {
        const StoredChunk &chunk = all.job->chunks->list[stop->number];
        bool whole = false;
        if (chunk.wide && !all.clock.span_is_over())
            whole = all.job->softmax ? train_wide_classes<T>(all, *stop, worker, held)
                                     : train_wide<T>(all, *stop, worker, held);
        else if (!all.clock.span_is_over() && !all.visits.stopped())
            all.visits.visit(worker, stop->number, chunk.keys.data(), chunk.widths.data(),
                             chunk.keys.size(), held, [&] {
                                 drawn.look_ahead();
                                 all.visits.settle(all.clock, worker, held);
                                 whole = train_any_runs<T, W>(
                                     all, *stop, chunk_runs(all.job, *stop), held.weights(chunk));
                                 return true;
                             });
        if (all.visits.stopped())
            return;
        if (!whole) {
            std::lock_guard guard(all.lock);
            all.left.push_back(*stop);
        }
    }
}

template <class T, class W> int epoch(tk_stored *job) {
    Training all(job);
    int32_t threads = job->pass->threads;
    for (auto stops = epoch_stops(job, &all.rows); !stops.empty();) {
        Queue queue(std::move(stops));
        all.clock.begin_span();
        parallel_for(threads, threads,
                     [&](int64_t worker) { train<T, W>(all, queue, (int32_t)worker); });
        if (all.visits.stopped())
            break;
        std::sort(all.left.begin(), all.left.end(),
                  [](const Stop &a, const Stop &b) { return a.row < b.row; });
        stops = std::exchange(all.left, {});
    }
    all.clock.begin_span();
    job->time = all.clock.time();
    job->scale = all.clock.scale_at(job->time);
    return all.visits.code();
}

// Updates payloads with pending penalties, but does not mark them as changed: the next reader
// would update them in the same way.
template <class T, class W> int total_loss(tk_stored *job) {
    Visits visits(job);
    Clock clock(job->l1, job->l2, job->time);
    Queue queue(stops_of(job));
    int32_t threads = job->pass->threads;
    job->scale = clock.scale_at(job->time);
    parallel_for(threads, threads, [&](int64_t worker) {
        Held<W> held;
        for (Stop *stop; !visits.stopped() && (stop = queue.draw());) {
            const StoredChunk &chunk = job->chunks->list[stop->number];
            if (chunk.wide) {
                auto loss = job->softmax ? loss_of_wide_classes<T, W> : loss_of_wide<T, W>;
                loss(job, visits, clock, *stop, (int32_t)worker, held);
                continue;
            }
            visits.visit((int32_t)worker, stop->number, chunk.keys.data(), chunk.widths.data(),
                         chunk.keys.size(), held, [&] {
                             visits.settle(clock, (int32_t)worker, held);
                             auto runs = cut(chunk.pieces, PARTITION_ROWS);
                             visits.add(loss_of_any_runs<T, W>(job, visits, runs, job->scale,
                                                               held.weights(chunk)),
                                        chunk.rows);
                             return false;
                         });
        }
    });
    return visits.code();
}

// Cuts the keys into pieces that one worker holds at a time. Returns the ends of the pieces.
std::vector<int64_t> pieces_of(const uint32_t *widths, int64_t n, const tk_cut &cut,
                               int64_t most_bytes) {
    std::vector<int64_t> ends{0};
    int64_t bytes = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t more = (int64_t)widths[k] * cut.weight_size + cut.frame_bytes;
        if (bytes && bytes + more > most_bytes) {
            ends.push_back(k);
            bytes = 0;
        }
        bytes += more;
    }
    if (n)
        ends.push_back(n);
    return ends;
}

template <class W> void sum_held(const tk_stored *job, Visits &visits, const Held<W> &held) {
    double squares = 0, absolute = 0;
    int64_t nonzeros = 0;
    for (tusk_frame *frame : held.frames) {
        W *u = (W *)frame->weights;
        for (uint32_t k = 0; k < frame->width; k++) {
            double w = job->scale * (double)u[k];
            squares += w * w;
            absolute += std::fabs(w);
            nonzeros += w != 0;
            if (job->fold)
                u[k] = (W)w;
        }
        if (job->fold)
            frame->stamp = 0;
    }
    visits.add_weights(squares, absolute, nonzeros);
}

template <class W>
int settle_all(tk_stored *job, const uint64_t *keys, const uint32_t *widths, int64_t n,
               int64_t most_bytes) {
    Visits visits(job);
    Clock clock(job->l1, job->l2, job->time);
    job->scale = clock.scale_at(job->time);
    auto ends = pieces_of(widths, n, job->chunks->cut, most_bytes);
    std::atomic<size_t> next{1};
    parallel_for(job->pass->threads, job->pass->threads, [&](int64_t worker) {
        Held<W> held;
        for (size_t i; !visits.stopped() && (i = next.fetch_add(1)) < ends.size();)
            visits.visit((int32_t)worker, -1, keys + ends[i - 1], widths + ends[i - 1],
                         (size_t)(ends[i] - ends[i - 1]), held, [&] {
                             visits.settle(clock, (int32_t)worker, held);
                             sum_held(job, visits, held);
                             return true;
                         });
    });
    if (visits.code() == TK_OK && job->fold) {
        job->time = 0;
        job->scale = 1;
    }
    return visits.code();
}

// Calls body with null pointers that have the types of the job's values and weights.
template <class Body> int with_types(const tk_stored *job, Body &&body) {
    return code_of([&] {
        return with_storage(job->pass, [&]<class T>(const T *value) {
            return with_weights(job, [&]<class W>(W *weight) { return body(value, weight); });
        });
    });
}

} // namespace
} // namespace tusk

using namespace tusk;

int tk_stored_epoch(tk_stored *job) {
    return with_types(job, [&]<class T, class W>(const T *, W *) {
        return job->together ? epoch_together<T, W>(job) : epoch<T, W>(job);
    });
}

int tk_stored_loss(tk_stored *job) {
    return with_types(job, [&]<class T, class W>(const T *, W *) {
        return job->together ? loss_together<T, W>(job) : total_loss<T, W>(job);
    });
}

int tk_stored_settle(tk_stored *job, const uint64_t *keys, const uint32_t *widths, int64_t n,
                     int64_t most_bytes) {
    return code_of([&] {
        return with_weights(
            job, [&]<class W>(W *) { return settle_all<W>(job, keys, widths, n, most_bytes); });
    });
}
