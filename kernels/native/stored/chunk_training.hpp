// Trains the rows of one chunk whose payloads a worker holds.
#pragma once

#include <utility>

#include "../epochs/epoch.hpp"
#include "visits.hpp"

namespace tusk {

// Batches with a custom loss function (tk_loss).

// Like evaluate_batch, with the loss of job->open if it has one. If that fails, so do the visits,
// and all derivatives are 0.
template <class T, class Margin>
double evaluate_stored(const tk_stored *job, Visits &visits, const SparseBatch<T> &batch,
                       const Loss &loss, const Labels &labels, Margin &&margin,
                       std::vector<double> &r) {
    const tk_open *open = job->open;
    if (!open || !open->loss)
        return evaluate_batch(batch, loss, labels, margin, r);
    const size_t n = (size_t)batch.n;
    bool classes = is_of_classes((LossKind)job->pass->loss);
    std::vector<double> m(n), y(n), values(n);
    r.assign(n, 0.0);
    for (size_t i = 0; i < n; i++) {
        m[i] = margin(batch.rows[i]);
        y[i] = !classes ? batch.y[i] : batch.y[i] == labels.positive ? 1 : -1;
    }
    if (open->answered)
        *open->answered = 0;
    if (open->loss(m.data(), y.data(), batch.n, values.data(), r.data(), nullptr) ||
        (open->answered && !*open->answered)) {
        visits.fail(TK_LOSS_FAILED, -1, "");
        r.assign(n, 0.0);
        return 0;
    }
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        double weight = !labels.weighted                ? 1
                        : batch.y[i] == labels.positive ? labels.weight_positive
                                                        : labels.weight_negative;
        total += weight * values[i];
        r[i] *= weight;
    }
    return total;
}

// Like evaluate_row, for one row with margin m.
template <class T>
double evaluate_stored_row(const tk_stored *job, Visits &visits, const Loss &loss,
                           const Labels &labels, double m, double y, double *d) {
    if (!job->open || !job->open->loss)
        return evaluate_row(loss, labels, m, y, d);
    SparseRow<T> row{};
    std::vector<double> r;
    double lost = evaluate_stored(
        job, visits, SparseBatch<T>{&row, &y, 1}, loss, labels,
        [m](const SparseRow<T> &) { return m; }, r);
    *d = r[0];
    return lost;
}

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

inline std::vector<Stop> stops_of(const tk_stored *job) {
    std::vector<Stop> out;
    int64_t n = job->which ? job->n_which : tk_chunks_count(job->chunks);
    for (int64_t i = 0; i < n; i++)
        out.push_back({job->which ? job->which[i] : i, 0});
    return out;
}

// The seed of this epoch's shuffle.
inline uint64_t seed_of(const tk_stored *job) {
    return job->seed + (uint64_t)job->epochs_done * 0xd1342543de82ef95u;
}

// The chunks in the epoch's order.
inline std::vector<Stop> epoch_stops(const tk_stored *job, int64_t *rows) {
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
inline std::vector<Run> chunk_runs(const tk_stored *job, const Stop &stop) {
    auto partitions = cut(job->chunks->list[stop.number].pieces, PARTITION_ROWS);
    if (!job->shuffle)
        return partitions;
    shuffle(partitions, seed_of(job) ^ ((uint64_t)(stop.number + 1) * 0x9fb21c651e98df25u));
    return interleave(partitions);
}

inline tk_epoch schedule_of(const tk_stored *job) {
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

// Trains runs of a chunk from batch stop.batches on. Returns false if it was interrupted;
// stop.batches is then the next batch.
template <class T, class W>
bool train_runs(Training &all, Stop &stop, const std::vector<Run> &runs, Paged<W> w) {
    const tk_stored *job = all.job;
    const tk_pass *pass = job->pass;
    const Loss loss(pass);
    tk_epoch e = schedule_of(job);
    Schedule schedule(&e, 0, all.rows);
    Labels labels(pass, 0);
    OwnIntercept b(all.job);
    OwnClock clock(all.clock);
    std::vector<double> r;
    double sum_of_losses = 0;
    const double longest = all.clock.longest_step();
    int64_t row = stop.row, rows = 0, batches = 0;
    bool broken = false;
    auto margin = [&](const SparseRow<T> &x) {
        return b.value() + clock.scale() * dot_paged(x, w);
    };
    for_sparse_batches<T>(
        runs, 0, runs.size(), job->batch_size, StepWeights(), [&](const SparseBatch<T> &batch) {
            bool done = batches < stop.batches;
            if (done || broken || (broken = all.clock.span_is_over() || all.visits.stopped())) {
                batches += done;
                row += batch.n;
                return;
            }
            sum_of_losses += evaluate_stored(job, all.visits, batch, loss, labels, margin, r);
            // A smaller batch, as at the end of a chunk, takes a shorter step, so that all rows
            // have the same weight.
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

// The sum of the losses of runs of a chunk.
template <class T, class W>
double loss_of_runs(const tk_stored *job, Visits &visits, const std::vector<Run> &runs,
                    double scale, Paged<W> w) {
    const Loss loss(job->pass);
    Labels labels(job->pass, 0);
    std::vector<double> r;
    double sum = 0;
    auto margin = [&](const SparseRow<T> &x) { return job->intercept + scale * dot_sparse(x, w); };
    for_sparse_batches<T>(
        runs, 0, runs.size(), BLOCK_ROWS, StepWeights(), [&](const SparseBatch<T> &batch) {
            if (!visits.stopped())
                sum += evaluate_stored(job, visits, batch, loss, labels, margin, r);
        });
    return sum;
}

} // namespace tusk
