// HOGWILD!: several threads update one shared model without locks. A thread reads the weights that
// it needs, computes the gradient of one row, and writes the changed weights back. An update may
// be lost if another thread writes the same weight, but on sparse problems this is rare. Niu,
// Recht, Re and Wright, HOGWILD!: A lock-free approach to parallelizing stochastic gradient
// descent, NIPS 2011. HogBatch writes once per batch instead (Sallinen et al., High performance
// parallel stochastic gradient descent in shared memory, 2016). Dense models need this, because
// their threads would contend for every cache line.
#include <mutex>

#include "rowwise.hpp"
#include "step_weights.hpp"

namespace tusk {
namespace {

// State shared by the threads of one group: w followed by the intercept in coordinates of z, and
// the sums over all threads.
template <class W> struct Shared {
    const tk_pass *pass;
    const tk_epoch *epoch;
    int64_t g, d;
    LookedUp<W> w;
    std::vector<Run> runs;
    StepWeights weights;
    std::mutex lock; // guards the sums; taken once per share of rows
    double loss = 0;

    Shared(const tk_pass *p, const tk_epoch *e, int64_t group, const double *v)
        : pass(p), epoch(e), g(group), d(p->groups[0].dim), w(d + 1),
          runs(make_runs(p->groups[group], e, p->stride)), weights(p, group, e) {
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

// A thread's copy of the shared model. It is read before a batch, and the batch's changes are
// written back.
class View {
public:
    View(Shared<double> &shared, DenseModel &mine)
        : w_(shared.w.data()), shift_(shared.epoch->shift + shared.g * shared.d), mine_(mine),
          before_(shared.d) {}

    void read() {
        centre = 0;
        for (size_t k = 0; k < before_.size(); k++) {
            before_[k] = mine_.w[k] = read_shared(w_[k]);
            centre += before_[k] * shift_[k];
        }
        v_d = mine_.v_d = read_shared(w_[before_.size()]);
    }

    void write() {
        for (size_t k = 0; k < before_.size(); k++)
            write_shared(w_[k], read_shared(w_[k]) + (mine_.w[k] - before_[k]));
        double &intercept = w_[before_.size()];
        write_shared(intercept, read_shared(intercept) + (mine_.v_d - v_d));
    }

    double v_d = 0, centre = 0;

private:
    double *w_;
    const double *shift_;
    DenseModel &mine_;
    std::vector<double> before_;
};

template <class T>
void dense_share(Shared<double> &shared, RunningMean &sum_of_means, size_t first, size_t last) {
    const tk_pass *pass = shared.pass;
    const tk_epoch *e = shared.epoch;
    int64_t d = shared.d, row = (int64_t)(first * RUN_ROWS);
    DenseModel mine(e, shared.g, d, pass->fit_intercept, std::vector<double>(d + 1, 0.0).data());
    View view(shared, mine);
    RunningMean mean(d);
    Schedule schedule(e, shared.g, pass->groups[shared.g].n_rows);
    const Loss loss(pass);
    const Labels labels(pass, shared.g);
    alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS];
    double sum_of_losses = 0, s = 0;
    int64_t gathered = 0;
    auto write_batch = [&] {
        mine.update(schedule.at(row), s, (double)gathered, nullptr);
        view.write();
        mean.add(mine);
        row += gathered;
        gathered = 0;
        s = 0;
    };
    auto block = [&](const Gathered<T> &x, const Targets &y, int n, bool last) {
        if (cancelled(pass->cancel_mark))
            return;
        if (!gathered)
            view.read();
        margins(x, n, d, mine.w.data(), view.v_d - view.centre, m);
        sum_of_losses += evaluate(loss, labels, m, y, n, r, nullptr);
        add_gradient(x, n, d, r, mine.gradient.data());
        s += sum_block(r);
        gathered += n;
        if (last)
            write_batch();
    };
    for_dense_batches<T>(shared.runs, first, last, d, e->batch_size, shared.weights, block);
    std::lock_guard guard(shared.lock);
    shared.loss += sum_of_losses;
    sum_of_means.add(mean);
}

// The same for batches of one row.
void row_share(Shared<double> &shared, RunningMean &sum_of_means, size_t first, size_t last) {
    std::vector<double> zero(shared.d + 1, 0.0);
    RowSteps steps{shared.pass, shared.epoch,    shared.g,
                   zero.data(), shared.w.data(), shared.weights};
    walk_rows(steps, shared.runs, first, last, (int64_t)(first * RUN_ROWS));
    std::lock_guard guard(shared.lock);
    shared.loss += steps.loss;
    sum_of_means.add(steps.sum, steps.sum_d, (double)steps.n);
}

// The weights that all threads share.
template <class W> struct SharedWeights {
    W *w;
    W read(int32_t id) const { return read_shared(w[id]); }
    void write(int32_t id, W v) const { write_shared(w[id], v); }
};

// The intercept moves at every row. If all threads read and wrote the shared one each time, they
// would mostly wait for its cache line. So each thread has a copy and adds its change to the
// shared one every few rows. The interval is short enough that the threads together do not
// overshoot before they see each other's changes.
class OwnIntercept {
public:
    OwnIntercept(Shared<float> &shared)
        : shared_(shared.w[shared.d]), mine_(read_shared(shared_)), before_(mine_) {
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

// Takes one row's step, w -= by * scale^2 x, and its share of the penalty.
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

template <class T>
void sparse_share(Shared<float> &shared, const SparseRules &rules, size_t first, size_t last) {
    const tk_pass *pass = shared.pass;
    const tk_epoch *e = shared.epoch;
    int64_t row = (int64_t)(first * RUN_ROWS);
    Schedule schedule(e, shared.g, pass->groups[shared.g].n_rows);
    const Loss loss(pass);
    const Labels labels(pass, shared.g);
    std::vector<double> r;
    double sum_of_losses = 0;
    SharedWeights<float> w{shared.w.data()};
    OwnIntercept b(shared);
    auto margin = [&](const SparseRow<T> &x) { return b.value() + dot_sparse(x, w); };
    for_sparse_batches<T>(shared.runs, first, last, e->batch_size, shared.weights,
                          [&](const SparseBatch<T> &batch) {
                              if (cancelled(pass->cancel_mark))
                                  return;
                              batch.prefetch_next(shared.w.data(), shared.d);
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

// Splits the rows into shares. They are short, so that threads finish at about the same time, but
// have at least one batch.
template <class W, class Body> void share_out(Shared<W> &shared, int threads, Body &&body) {
    size_t runs = shared.runs.size(), least = (size_t)shared.epoch->batch_size / RUN_ROWS + 1;
    size_t each =
        std::clamp<size_t>(runs / (8 * threads) + 1, least, std::max<size_t>(least, 1024));
    parallel_for((int64_t)((runs + each - 1) / each), threads,
                 [&](int64_t i) { body(i * each, std::min(runs, (i + 1) * each)); });
}

template <class T>
void group_epoch(const tk_pass *pass, const tk_epoch *e, int64_t g, int threads, double *v,
                 double *average, double *total) {
    if (tusk_is_sparse(pass->groups[0].kind)) {
        Shared<float> shared(pass, e, g, v);
        SparseRules rules(e, g, shared.d);
        share_out(shared, threads,
                  [&](size_t first, size_t last) { sparse_share<T>(shared, rules, first, last); });
        shared.write(v);
        *total = shared.loss;
        if (average)
            shared.write(average);
    } else {
        Shared<double> shared(pass, e, g, v);
        RunningMean mean(shared.d);
        share_out(shared, threads, [&](size_t first, size_t last) {
            if (is_rowwise(e, shared.d))
                row_share(shared, mean, first, last);
            else
                dense_share<T>(shared, mean, first, last);
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
        // Many groups: one thread per group, nothing shared. Few groups: all threads train one
        // group after another.
        bool together = pass->n_groups < 2 * pass->threads;
        return with_storage(pass, [&]<class T>(const T *) {
            parallel_for(pass->n_groups, together ? 1 : pass->threads, [&](int64_t g) {
                group_epoch<T>(pass, epoch, g, together ? pass->threads : 1, weights + g * p,
                               average ? average + g * p : nullptr, &loss[g]);
            });
            return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
        });
    });
}
