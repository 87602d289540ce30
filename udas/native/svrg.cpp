// Stochastic variance-reduced gradient: with a = anchor and mu = full gradient at a, each batch B takes the step
//   v -= step (grad_B(v) - grad_B(a) + mu),
// whose variance vanishes as v and a approach the optimum. Johnson and Zhang, Accelerating stochastic gradient descent
// using predictive variance reduction, NIPS 2013. Sparse rows add mu only where they have features, scaled up by how
// rare these are (Mania et al., Perturbed iterate analysis, 2017, algorithm 5), so that a step costs no more than a row.
#include "epoch.hpp"

namespace tusk {
namespace {

template <class T, class Loss>
void dense_epoch(const tk_pass *pass, const tk_epoch *e, const Loss &loss, int64_t g, const double *anchor,
                 const double *full, double *v, double *average) {
    int64_t d = pass->groups[0].dim;
    bool fit = pass->fit_intercept;
    DenseModel model(e, g, d, fit, v), fixed(e, g, d, fit, anchor);
    RunningMean mean(d);
    Schedule schedule(e, g, pass->groups[g].n_rows);
    Labels labels(pass, g);
    std::vector<double> mu(padded(d) + 1, 0.0); // the intercept's behind the padding, where update looks for it
    std::copy_n(full, d, mu.begin());
    mu.back() = full[d];
    alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS], r_fixed[BLOCK_ROWS];
    int64_t row = 0;
    int most = std::min<int>(e->batch_size, block_rows<T>(d));
    for_dense_blocks<T>(whole(pass, g), d, most, [&](const DenseBlock<T> &rows) {
        if (cancelled(pass->cancel_mark)) return;
        margins(rows, d, model.w.data(), model.b, m);
        evaluate(loss, labels, m, rows.y, rows.n, r, nullptr);
        margins(rows, d, fixed.w.data(), fixed.b, m);
        evaluate(loss, labels, m, rows.y, rows.n, r_fixed, nullptr);
        for (int i = 0; i < BLOCK_ROWS; i++) r[i] -= r_fixed[i];
        add_gradient(rows, d, r, model.gradient.data());
        model.update(schedule.at(row), sum_block(r), rows.n, mu.data());
        mean.add(model);
        row += rows.n;
    });
    model.write(v);
    mean.write(e->scale + g * d, average);
}

template <class T, class Loss>
void sparse_epoch(const tk_pass *pass, const tk_epoch *e, const Loss &loss, int64_t g, const double *anchor,
                  const double *full, double *v) {
    int64_t d = pass->groups[0].dim, row = 0;
    const double *scale = e->scale + g * d, *frequency = e->frequency + g * d;
    SparsePenalty penalty(e, g, d);
    Schedule schedule(e, g, pass->groups[g].n_rows);
    Labels labels(pass, g);
    std::vector<double> w(d), w_fixed(d);
    for (int64_t k = 0; k < d; k++) {
        w[k] = v[k] * scale[k];
        w_fixed[k] = anchor[k] * scale[k];
    }
    double b = v[d], b_fixed = anchor[d];
    alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS], r_fixed[BLOCK_ROWS];
    for_sparse_blocks<T>(whole(pass, g), std::min<int>(e->batch_size, BLOCK_ROWS), [&](const SparseBlock<T> &rows) {
        if (cancelled(pass->cancel_mark)) return;
        margins(rows, w.data(), b, m);
        evaluate(loss, labels, m, rows.y, rows.n, r, nullptr);
        margins(rows, w_fixed.data(), b_fixed, m);
        evaluate(loss, labels, m, rows.y, rows.n, r_fixed, nullptr);
        double step = schedule.at(row) / rows.n;
        for (int i = 0; i < rows.n; i++) {
            double change = r[i] - r_fixed[i];
            for (uint32_t k = rows.start[i]; k < rows.start[i + 1]; k++) {
                int32_t id = rows.index[k];
                double by = change * rows.value[k] * scale[id] + full[id] / frequency[id];
                double next = w[id] - step * scale[id] * by;
                w[id] = penalty.any ? penalty.apply(next, step, id, scale[id] * scale[id]) : next;
            }
            if (pass->fit_intercept) b -= step * (change + full[d]);
        }
        row += rows.n;
    });
    for (int64_t k = 0; k < d; k++) v[k] = scale[k] > 0 ? w[k] / scale[k] : 0;
    v[d] = b;
}

} // namespace
} // namespace tusk

int tk_svrg(const tk_pass *pass, const tk_epoch *epoch, const double *anchor, const double *full, double *weights,
            double *average) {
    using namespace tusk;
    int64_t p = pass->groups[0].dim + 1;
    bool sparse = tusk_is_sparse(pass->groups[0].kind);
    return with_loss(pass, [&](auto kind) {
        return with_storage(pass, [&]<class T>(const T *) {
            parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
                double *v = weights + g * p, *mean = average + g * p;
                if (sparse) {
                    sparse_epoch<T>(pass, epoch, kind, g, anchor + g * p, full + g * p, v);
                    std::copy_n(v, p, mean);
                } else {
                    dense_epoch<T>(pass, epoch, kind, g, anchor + g * p, full + g * p, v, mean);
                }
            });
            return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
        });
    });
}
