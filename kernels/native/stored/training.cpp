// SGD on a model in a store: HOGWILD! and HogBatch (see hogwild.cpp) on payloads that workers hold
// for one chunk at a time (Qin, Torres, Rusu, VLDB 2017, section 6). All workers write to the same
// frame of a key, so there is nothing to merge.
#include <utility>

#include "../epochs/epoch.hpp"
#include "own_loss.hpp"

namespace tusk {
namespace {

constexpr uint32_t FAR = 64; // entries whose weights are prefetched

// x . w. In a model larger than the caches, nearly every weight of a long row is a cache miss. We
// prefetch weights earlier than the processor would by itself, because each needs a look-up in the
// table of pages first.
template <class T, class W> auto dot_paged(const SparseRow<T> &x, Paged<W> w) {
    if (x.n <= FAR)
        return dot_sparse(x, w);
    for (uint32_t k = 0; k < FAR; k++)
        __builtin_prefetch(&w.at(x.index[k]), 1);
    W sum[4] = {};
    uint32_t k = 0;
    for (; k + FAR + 4 <= x.n; k += 4)
        for (uint32_t j = 0; j < 4; j++) {
            __builtin_prefetch(&w.at(x.index[k + FAR + j]), 1);
            sum[j] += (W)x.value[k + j] * w.read(x.index[k + j]);
        }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]) +
           dot_sparse(SparseRow<T>{x.index + k, x.value + k, x.n - k}, w);
}

std::vector<Stop> stops_of(const tk_stored *job) {
    std::vector<Stop> out;
    int64_t n = job->which ? job->n_which : tk_chunks_count(job->chunks);
    for (int64_t i = 0; i < n; i++)
        out.push_back({job->which ? job->which[i] : i, 0});
    return out;
}

// The seed of this epoch's shuffle.
uint64_t seed_of(const tk_stored *job) {
    return job->seed + (uint64_t)job->epochs_done * 0xd1342543de82ef95u;
}

// The chunks in the epoch's order.
std::vector<Stop> epoch_stops(const tk_stored *job, int64_t *rows) {
    std::vector<Stop> stops = stops_of(job);
    uint64_t seed = seed_of(job);
    for (size_t i = stops.size(); job->shuffle && i > 1; i--)
        std::swap(stops[i - 1], stops[((__uint128_t)next_random(seed) * i) >> 64]);
    *rows = 0;
    for (Stop &stop : stops) {
        stop.row = *rows;
        *rows += job->chunks->list[stop.number].rows;
    }
    return stops;
}

// The rows of a chunk in the epoch's order.
std::vector<Run> chunk_runs(const tk_stored *job, const Stop &stop) {
    auto partitions = cut(job->chunks->list[stop.number].pieces, PARTITION_ROWS);
    if (!job->shuffle)
        return partitions;
    shuffle(partitions, seed_of(job) ^ ((uint64_t)(stop.number + 1) * 0x9fb21c651e98df25u));
    return interleave(partitions);
}

tk_epoch schedule_of(const tk_stored *job) {
    tk_epoch e{};
    e.step = &job->step;
    e.power = job->power;
    e.epochs_done = job->epochs_done;
    return e;
}

// The intercept moves at every row, so each worker has a copy and adds its change to the shared
// one every few rows. The interval is short enough that the workers together do not overshoot
// before they see each other's changes.
class OwnIntercept {
public:
    explicit OwnIntercept(tk_stored *job) : shared_(job->intercept) {
        mine_ = before_ = read_shared(shared_);
        merge_rows_ =
            (int64_t)std::min(32.0, 1 / (SPARSE_INTERCEPT * job->step * job->pass->threads));
    }
    ~OwnIntercept() { merge(); }

    double value() const { return mine_; }

    void move(double by, int64_t rows) {
        mine_ -= by;
        rows_ += rows;
        if (rows_ >= merge_rows_)
            merge();
    }

private:
    void merge() {
        double change = mine_ - before_;
        mine_ = before_ =
            std::atomic_ref(shared_).fetch_add(change, std::memory_order_relaxed) + change;
        rows_ = 0;
    }

    double &shared_;
    double mine_, before_;
    int64_t merge_rows_, rows_ = 0;
};

// State shared by the workers of an epoch.
struct Training {
    tk_stored *job;
    Visits visits;
    Clock clock;
    int64_t rows = 0;
    std::vector<Stop> left; // chunks interrupted by the end of a clock span; guarded by lock
    std::mutex lock;

    explicit Training(tk_stored *j) : job(j), visits(j), clock(j->l1, j->l2, j->time) {}
};

// Moves the weights of a batch's rows by `by` times their derivatives r. Returns the sum of r.
template <class T, class W>
double move_rows(const SparseBatch<T> &batch, const double *r, double by, Paged<W> &w) {
    double sum = 0;
    for (int64_t i = 0; i < batch.n; i++) {
        move_along(batch.rows[i], (W)(by * r[i]), w);
        sum += r[i];
    }
    return sum;
}

// Trains the rows of a chunk from batch stop.batches on. Returns false if it was interrupted;
// stop.batches is then the next batch.
template <class T, class W> bool train_chunk(Training &all, Stop &stop, Paged<W> w) {
    const tk_stored *job = all.job;
    const tk_pass *pass = job->pass;
    const Loss loss(pass);
    tk_epoch e = schedule_of(job);
    Schedule schedule(&e, 0, all.rows);
    Labels labels(pass, 0);
    OwnIntercept b(all.job);
    OwnClock clock(all.clock);
    std::vector<Run> runs = chunk_runs(job, stop);
    std::vector<double> r;
    double sum_of_losses = 0;
    const double longest = all.clock.longest_step();
    int64_t row = stop.row, rows = 0, batches = 0;
    bool broken = false;
    auto margin = [&](const SparseRow<T> &x) {
        return b.value() + clock.scale() * dot_paged(x, w);
    };
    for_sparse_batches<T>(runs, 0, runs.size(), job->batch_size, [&](const SparseBatch<T> &batch) {
        bool done = batches < stop.batches;
        if (done || broken || (broken = all.clock.span_is_over() || all.visits.stopped())) {
            batches += done;
            row += batch.n;
            return;
        }
        sum_of_losses += evaluate_stored(job, all.visits, batch, loss, labels, margin, r);
        // A smaller batch, as at the end of a chunk, takes a shorter step, so that all rows have
        // the same weight.
        double step = (double)batch.n / job->batch_size * std::min(schedule.at(row), longest);
        double by = clock.step(step, batch.n) / (double)batch.n;
        double s = move_rows(batch, r.data(), by, w);
        if (pass->fit_intercept)
            b.move(SPARSE_INTERCEPT * step / (double)batch.n * s, batch.n);
        row += batch.n;
        rows += batch.n;
        batches++;
    });
    stop.batches = batches;
    all.visits.add(sum_of_losses, rows);
    return !broken;
}

// Visits chunks until none is left or the clock's span ends.
template <class T, class W> void train(Training &all, Queue &queue, int32_t worker) {
    Held<W> held;
    while (Stop *stop = queue.draw()) {
        const StoredChunk &chunk = all.job->chunks->list[stop->number];
        bool whole = false;
        if (!all.clock.span_is_over() && !all.visits.stopped())
            all.visits.visit(worker, stop->number, chunk.keys.data(), chunk.widths.data(),
                             chunk.keys.size(), held, [&] {
                                 for (tusk_frame *frame : held.frames)
                                     all.clock.settle<W>(frame);
                                 whole = train_chunk<T, W>(all, *stop, held.weights(chunk));
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

template <class T, class W>
double chunk_loss(const tk_stored *job, Visits &visits, const StoredChunk &chunk, double scale,
                  Paged<W> w) {
    const Loss loss(job->pass);
    Labels labels(job->pass, 0);
    std::vector<double> r;
    double sum = 0;
    auto margin = [&](const SparseRow<T> &x) { return job->intercept + scale * dot_sparse(x, w); };
    auto runs = cut(chunk.pieces, PARTITION_ROWS);
    for_sparse_batches<T>(runs, 0, runs.size(), BLOCK_ROWS, [&](const SparseBatch<T> &batch) {
        if (!visits.stopped())
            sum += evaluate_stored(job, visits, batch, loss, labels, margin, r);
    });
    return sum;
}

// Brings outdated payloads up to date, but does not mark them as changed: the next reader would
// bring them up to date in the same way.
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
            visits.visit((int32_t)worker, stop->number, chunk.keys.data(), chunk.widths.data(),
                         chunk.keys.size(), held, [&] {
                             for (tusk_frame *frame : held.frames)
                                 clock.settle<W>(frame);
                             visits.add(chunk_loss<T, W>(job, visits, chunk, job->scale,
                                                         held.weights(chunk)),
                                        chunk.rows);
                             return false;
                         });
        }
    });
    return visits.code();
}

// Cuts the keys into pieces that one worker holds at a time. Returns the ends of the pieces.
// frame_bytes: of a payload beside its weights.
template <class W>
std::vector<int64_t> pieces_of(const uint32_t *widths, int64_t n, int64_t most_bytes,
                               int64_t frame_bytes) {
    std::vector<int64_t> ends{0};
    int64_t bytes = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t more = (int64_t)widths[k] * (int64_t)sizeof(W) + frame_bytes;
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

template <class W>
void settle_held(const tk_stored *job, Visits &visits, Clock &clock, const Held<W> &held) {
    double squares = 0, absolute = 0;
    int64_t nonzeros = 0;
    for (tusk_frame *frame : held.frames) {
        clock.settle<W>(frame);
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
    auto ends = pieces_of<W>(widths, n, most_bytes, job->chunks->cut.frame_bytes);
    std::atomic<size_t> next{1};
    parallel_for(job->pass->threads, job->pass->threads, [&](int64_t worker) {
        Held<W> held;
        for (size_t i; !visits.stopped() && (i = next.fetch_add(1)) < ends.size();)
            visits.visit((int32_t)worker, -1, keys + ends[i - 1], widths + ends[i - 1],
                         (size_t)(ends[i] - ends[i - 1]), held, [&] {
                             settle_held(job, visits, clock, held);
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
    return with_types(job, [&]<class T, class W>(const T *, W *) { return epoch<T, W>(job); });
}

int tk_stored_loss(tk_stored *job) {
    return with_types(job,
                      [&]<class T, class W>(const T *, W *) { return total_loss<T, W>(job); });
}

int tk_stored_settle(tk_stored *job, const uint64_t *keys, const uint32_t *widths, int64_t n,
                     int64_t most_bytes) {
    return code_of([&] {
        return with_weights(
            job, [&]<class W>(W *) { return settle_all<W>(job, keys, widths, n, most_bytes); });
    });
}
