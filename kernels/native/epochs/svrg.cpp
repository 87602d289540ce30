// Stochastic variance-reduced gradient: with a = anchor and mu = full gradient at a, each batch B
// takes the step
//   v -= step (grad_B(v) - grad_B(a) + mu),
// whose variance vanishes as v and a approach the optimum. Johnson and Zhang, Accelerating
// stochastic gradient descent using predictive variance reduction, NIPS 2013. Sparse rows add mu
// only where they have features, divided by the feature's frequency (Mania et al., Perturbed
// iterate analysis, 2017, algorithm 5), so that the cost of a step depends only on its rows.
#include "epoch.hpp"

namespace tusk {
namespace {

// Not inlined: the compiler would fuse different operations at each call, and the last bits of the
// result would depend on the caller.
#if defined(__clang__)
#define ALONE [[gnu::noinline]]
#else
#define ALONE [[gnu::noipa]]
#endif
ALONE void step_model(DenseModel &model, double step, double s, double n, const double *mu) {
    model.update(step, s, n, mu);
}

// The mean gradient, padded. The intercept's part comes after the padding, where update reads it.
std::vector<double> padded_mean(const double *full, int64_t d) {
    std::vector<double> mu(padded(d) + 1, 0.0);
    std::copy_n(full, d, mu.begin());
    mu.back() = full[d];
    return mu;
}

template <class T>
void dense_epoch(const tk_pass *pass, const tk_epoch *e, int64_t g, const double *anchor,
                 const double *full, double *v, double *average) {
    int64_t d = pass->groups[0].dim;
    bool fit = pass->fit_intercept;
    DenseModel model(e, g, d, fit, v), fixed(e, g, d, fit, anchor);
    RunningMean mean(d);
    Schedule schedule(e, g, pass->groups[g].n_rows);
    const Loss loss(pass);
    const Labels labels(pass, g);
    const std::vector<double> mu = padded_mean(full, d);
    alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS], r_fixed[BLOCK_ROWS];
    int64_t row = 0, gathered = 0;
    double sum = 0;
    std::vector<Run> runs = make_runs(pass->groups[g], e, pass->stride);
    auto block = [&](const Gathered<T> &x, const Targets &y, int n, bool last) {
        if (cancelled(pass->cancel_mark))
            return;
        margins(x, n, d, model.w.data(), model.b, m);
        derivatives(loss, labels, m, y, n, r, nullptr);
        margins(x, n, d, fixed.w.data(), fixed.b, m);
        derivatives(loss, labels, m, y, n, r_fixed, nullptr);
        for (int i = 0; i < BLOCK_ROWS; i++)
            r[i] -= r_fixed[i];
        add_gradient(x, n, d, r, model.gradient.data());
        sum += sum_block(r);
        gathered += n;
        if (!last)
            return;
        step_model(model, schedule.at(row), sum, (double)gathered, mu.data());
        mean.add(model);
        row += gathered;
        gathered = 0;
        sum = 0;
    };
    for_dense_batches<T>(runs, 0, runs.size(), d, e->batch_size, StepWeights(pass, g), block);
    model.write(v);
    mean.write(e->scale + g * d, average);
}

template <class T>
void sparse_epoch(const tk_pass *pass, const tk_epoch *e, int64_t g, const double *anchor,
                  const double *full, double *v) {
    int64_t d = pass->groups[0].dim, row = 0;
    const double *frequency = e->frequency + g * d;
    SparseModel<double> model(e, g, d, v), fixed(e, g, d, anchor);
    Schedule schedule(e, g, pass->groups[g].n_rows);
    const Loss loss(pass);
    const Labels labels(pass, g);
    std::vector<double> r, r_fixed;
    const auto runs = make_runs(pass->groups[g], e, pass->stride);
    const StepWeights weights(pass, g);
    auto margin = [](const SparseModel<double> &at) {
        return [&at](const SparseRow<T> &x) {
            return at.b + dot_sparse(x, OwnWeights<const double>{at.w.data()});
        };
    };
    for_sparse_batches<T>(
        runs, 0, runs.size(), e->batch_size, weights, [&](const SparseBatch<T> &batch) {
            if (cancelled(pass->cancel_mark))
                return;
            evaluate_batch(batch, loss, labels, margin(model), r);
            evaluate_batch(batch, loss, labels, margin(fixed), r_fixed);
            double step = schedule.at(row) / (double)batch.n;
            for (int64_t i = 0; i < batch.n; i++) {
                const SparseRow<T> &x = batch.rows[i];
                double change = r[i] - r_fixed[i];
                for (uint32_t k = 0; k < x.n; k++) {
                    int32_t id = x.index[k];
                    model.w[id] -= step * (model.rules.scale ? model.rules.scale[id] : 1.0) *
                                   full[id] / frequency[id];
                }
                model.update(x, step, step * change);
                if (pass->fit_intercept)
                    model.b -= step * (change + full[d]);
            }
            row += batch.n;
        });
    model.write(v);
}

} // namespace
} // namespace tusk

int tk_svrg(const tk_pass *pass, const tk_epoch *epoch, const double *anchor, const double *full,
            double *weights, double *average) {
    using namespace tusk;
    return code_of([&] {
        int64_t p = pass->groups[0].dim + 1;
        bool sparse = tusk_is_sparse(pass->groups[0].kind);
        return with_storage(pass, [&]<class T>(const T *) {
            parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
                double *v = weights + g * p, *mean = average + g * p;
                if (sparse) {
                    sparse_epoch<T>(pass, epoch, g, anchor + g * p, full + g * p, v);
                    std::copy_n(v, p, mean);
                } else {
                    dense_epoch<T>(pass, epoch, g, anchor + g * p, full + g * p, v, mean);
                }
            });
            return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
        });
    });
}
