// HOGWILD!: several threads update one shared model without locks. A thread reads the weights that
// it needs, computes the gradient of one row, and writes the changed weights back; an update that
// meets another's may be lost, which sparse problems hardly notice. Niu, Recht, Re and Wright,
// HOGWILD!: A lock-free approach to parallelizing stochastic gradient descent, NIPS 2011. HogBatch
// writes once a batch instead (Sallinen et al., High performance parallel stochastic gradient
// descent in shared memory, 2016), which dense models need: their threads would fight for every
// cache line.
//
// Shared weights are read and written by relaxed atomics: on the machines at hand plain moves, to
// the language no race.
#include <atomic>
#include <mutex>

#include "rowwise.hpp"

namespace tusk {
namespace {

template <class W> inline W read(W &x) {
    return std::atomic_ref<W>(x).load(std::memory_order_relaxed);
}
template <class W> inline void write(W &x, W v) {
    std::atomic_ref<W>(x).store(v, std::memory_order_relaxed);
}

// What the threads of one group share: w, behind it the intercept in coordinates of z, and what
// they sum up.
template <class W> struct Shared {
    const tk_pass *pass;
    const tk_epoch *epoch;
    int64_t g, d;
    std::vector<W> w;
    std::vector<Run> runs;
    std::mutex lock; // of what the shares sum up, taken once by each
    double loss = 0;

    Shared(const tk_pass *p, const tk_epoch *e, int64_t group, const double *v)
        : pass(p), epoch(e), g(group), d(p->groups[0].dim), w(d + 1),
          runs(make_runs(p->groups[group], e, p->stride)) {
        const double *scale = e->scale + g * d;
        for (int64_t k = 0; k < d; k++)
            w[k] = (W)(v[k] * scale[k]);
        w[d] = (W)v[d];
    }

    void write(double *v) const {
        const double *scale = epoch->scale + g * d;
        for (int64_t k = 0; k < d; k++)
            v[k] = scale[k] > 0 ? w[k] / scale[k] : 0;
        v[d] = w[d];
    }
};

template <class T, class Loss>
void dense_share(Shared<double> &shared, RunningMean &sum_of_means, const Loss &loss, size_t first,
                 size_t last) {
    const tk_pass *pass = shared.pass;
    const tk_epoch *e = shared.epoch;
    int64_t d = shared.d, row = (int64_t)(first * RUN_ROWS);
    std::vector<double> start(d + 1, 0.0), before(d);
    DenseModel mine(e, shared.g, d, pass->fit_intercept, start.data());
    RunningMean mean(d);
    const double *shift = e->shift + shared.g * d;
    Schedule schedule(e, shared.g, pass->groups[shared.g].n_rows);
    Labels labels(pass, shared.g);
    alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS];
    double sum_of_losses = 0;
    double *w = shared.w.data();
    double v_d = 0, centre = 0, s = 0;
    int64_t gathered = 0;
    auto read_model = [&] {
        centre = 0;
        for (int64_t k = 0; k < d; k++) {
            before[k] = mine.w[k] = read(w[k]);
            centre += before[k] * shift[k];
        }
        v_d = mine.v_d = read(w[d]);
    };
    auto write_batch = [&] {
        mine.update(schedule.at(row), s, (double)gathered, nullptr);
        for (int64_t k = 0; k < d; k++)
            write(w[k], read(w[k]) + (mine.w[k] - before[k]));
        write(w[d], read(w[d]) + (mine.v_d - v_d));
        mean.add(mine);
        row += gathered;
        gathered = 0;
        s = 0;
    };
    auto block = [&](const Gathered<T> &x, const double *y, int n, bool last) {
        if (cancelled(pass->cancel_mark))
            return;
        if (!gathered)
            read_model();
        margins(x, n, d, mine.w.data(), v_d - centre, m);
        sum_of_losses += evaluate(loss, labels, m, y, n, r, nullptr);
        add_gradient(x, n, d, r, mine.gradient.data());
        s += sum_block(r);
        gathered += n;
        if (last)
            write_batch();
    };
    for_dense_batches<T>(shared.runs, first, last, d, e->batch_size, block);
    std::lock_guard guard(shared.lock);
    shared.loss += sum_of_losses;
    sum_of_means.add(mean);
}

// The same for batches of one row. Threads that wrote after each row would wait for each other's
// cache lines most of the time: a thread writes what a few rows changed, which lets others see it
// by so much later. The delay is bounded, as HOGWILD!'s convergence asks for.
template <int NV, class T, class Loss>
void row_share(Shared<double> &shared, RunningMean &sum_of_means, const Loss &loss, size_t first,
               size_t last) {
    const tk_pass *pass = shared.pass;
    const tk_epoch *e = shared.epoch;
    int64_t d = shared.d;
    std::vector<double> zero(d + 1, 0.0);
    double *w = shared.w.data();
    alignas(64) double at_first[NV * LANES] = {}, now[NV * LANES];
    double v_d = 0, total = 0;
    RowModel<NV> model(e, shared.g, d, pass->fit_intercept, zero.data());
    auto read_model = [&](RowModel<NV> &m) {
        for (int64_t k = 0; k < d; k++)
            at_first[k] = read(w[k]);
        for (int k = 0; k < NV; k++)
            m.w[k] = load(at_first + k * LANES);
        m.v_d = v_d = read(w[d]);
    };
    auto write_change = [&](const RowModel<NV> &m) {
        for (int k = 0; k < NV; k++)
            store(now + k * LANES, m.w[k]);
        for (int64_t k = 0; k < d; k++)
            write(w[k], read(w[k]) + (now[k] - at_first[k]));
        write(w[d], read(w[d]) + (m.v_d - v_d));
    };
    int64_t n = walk_rows<NV, T>(model, pass, Schedule(e, shared.g, pass->groups[shared.g].n_rows),
                                 Labels(pass, shared.g), loss, shared.runs, first, last,
                                 (int64_t)(first * RUN_ROWS), &total, read_model, write_change);
    double sum[NV * LANES], sum_d;
    model.give_sums(sum, &sum_d);
    std::lock_guard guard(shared.lock);
    shared.loss += total;
    sum_of_means.add(sum, sum_d, (double)n);
}

// Weights of all threads.
template <class W> struct SharedWeights {
    W *w;
    W read(int32_t id) const { return tusk::read(w[id]); }
    void write(int32_t id, W v) const { tusk::write(w[id], v); }
};

// The intercept moves at every row: threads that read and wrote the same one each time would do
// little else. Each has a copy, and adds what it changed to the shared one every few rows: so few
// that all threads together do not overshoot before they see each other.
class OwnIntercept {
public:
    OwnIntercept(Shared<float> &shared)
        : shared_(shared.w[shared.d]), mine_(read(shared_)), before_(mine_) {
        double step = SPARSE_INTERCEPT * shared.epoch->step[shared.g] * shared.pass->threads;
        merge_rows_ = (int64_t)std::min(32.0, 1 / step);
    }
    ~OwnIntercept() { merge(); }

    double value() const { return mine_; }

    void move(double by, int64_t rows) {
        mine_ -= (float)by;
        since_ += rows;
        if (since_ >= merge_rows_)
            merge();
    }

private:
    void merge() {
        float change = mine_ - before_;
        mine_ = before_ =
            std::atomic_ref<float>(shared_).fetch_add(change, std::memory_order_relaxed) + change;
        since_ = 0;
    }

    float &shared_;
    float mine_, before_;
    int64_t merge_rows_, since_ = 0;
};

// w -= by * scale^2 x for one row, and its share of the penalty for a step.
template <class T>
void update_shared(const SparseRow<T> &x, const SparseRules &rules, double step, double by,
                   SharedWeights<float> w) {
    if (rules.plain())
        return move_along(x, (float)by, w);
    for (uint32_t k = 0; k < x.n; k++) {
        int32_t id = x.index[k];
        w.write(id, (float)rules.apply(w.read(id), by * x.value[k], step, id));
    }
}

template <class T, class Loss>
void sparse_share(Shared<float> &shared, const SparseRules &rules, const Loss &loss, size_t first,
                  size_t last) {
    const tk_pass *pass = shared.pass;
    const tk_epoch *e = shared.epoch;
    int64_t row = (int64_t)(first * RUN_ROWS);
    Schedule schedule(e, shared.g, pass->groups[shared.g].n_rows);
    Labels labels(pass, shared.g);
    std::vector<double> r;
    double sum_of_losses = 0;
    SharedWeights<float> w{shared.w.data()};
    OwnIntercept b(shared);
    auto margin = [&](const SparseRow<T> &x) { return b.value() + dot_sparse(x, w); };
    for_sparse_batches<T>(shared.runs, first, last, e->batch_size,
                          [&](const SparseBatch<T> &batch) {
                              if (cancelled(pass->cancel_mark))
                                  return;
                              sum_of_losses += evaluate_batch(batch, loss, labels, margin, r);
                              double step = schedule.at(row) / (double)batch.n, s = 0;
                              for (int64_t i = 0; i < batch.n; i++) {
                                  update_shared(batch.rows[i], rules, step, step * r[i], w);
                                  s += r[i];
                              }
                              if (pass->fit_intercept)
                                  b.move(SPARSE_INTERCEPT * step * s, batch.n);
                              row += batch.n;
                          });
    std::lock_guard guard(shared.lock);
    shared.loss += sum_of_losses;
}

// Shares are short, so that threads end together, and of at least a batch.
template <class W, class Body> void share_out(Shared<W> &shared, int threads, Body &&body) {
    size_t runs = shared.runs.size(), least = (size_t)shared.epoch->batch_size / RUN_ROWS + 1;
    size_t each =
        std::clamp<size_t>(runs / (8 * threads) + 1, least, std::max<size_t>(least, 1024));
    parallel_for((int64_t)((runs + each - 1) / each), threads,
                 [&](int64_t i) { body(i * each, std::min(runs, (i + 1) * each)); });
}

template <class T, class Loss>
void group_epoch(const tk_pass *pass, const tk_epoch *e, const Loss &loss, int64_t g, int threads,
                 double *v, double *average, double *total) {
    if (tusk_is_sparse(pass->groups[0].kind)) {
        Shared<float> shared(pass, e, g, v);
        SparseRules rules(e, g, shared.d);
        share_out(shared, threads, [&](size_t first, size_t last) {
            sparse_share<T>(shared, rules, loss, first, last);
        });
        shared.write(v);
        *total = shared.loss;
        if (average)
            shared.write(average);
    } else {
        Shared<double> shared(pass, e, g, v);
        RunningMean mean(shared.d);
        share_out(shared, threads, [&](size_t first, size_t last) {
            if (is_rowwise(e, shared.d))
                for_width(shared.d,
                          [&]<int NV>() { row_share<NV, T>(shared, mean, loss, first, last); });
            else
                dense_share<T>(shared, mean, loss, first, last);
        });
        shared.write(v);
        *total = shared.loss;
        if (average)
            mean.write(e->scale + g * shared.d, average);
    }
}

} // namespace
} // namespace tusk

int tk_hogwild(const tk_pass *pass, const tk_epoch *epoch, double *weights, double *average,
               double *loss) {
    using namespace tusk;
    return code_of([&] {
        int64_t p = pass->groups[0].dim + 1;
        // Many groups: a thread each, without sharing. Few: all threads on one after the other.
        bool together = pass->n_groups < 2 * pass->threads;
        return with_loss(pass, [&](auto kind) {
            return with_storage(pass, [&]<class T>(const T *) {
                parallel_for(pass->n_groups, together ? 1 : pass->threads, [&](int64_t g) {
                    group_epoch<T>(pass, epoch, kind, g, together ? pass->threads : 1,
                                   weights + g * p, average ? average + g * p : nullptr, &loss[g]);
                });
                return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
            });
        });
    });
}
