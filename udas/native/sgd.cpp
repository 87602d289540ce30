// Stochastic gradient descent, serial: for each batch in the rows' order, v -= step * (mean
// gradient of the batch). Robbins and Monro, A stochastic approximation method, 1951; mini-batches
// and schedules as in design.md, section 4.
#include "rowwise.hpp"

namespace tusk {
namespace {

template <class T, class Loss>
void dense_epoch(const tk_pass *pass, const tk_epoch *e, const Loss &loss, int64_t g, double *v,
                 double *average, double *total) {
    int64_t d = pass->groups[0].dim, batch = e->batch_size;
    DenseModel model(e, g, d, pass->fit_intercept, v);
    RunningMean mean(d);
    Schedule schedule(e, g, pass->groups[g].n_rows);
    Labels labels(pass, g);
    alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS];
    double s = 0;
    int64_t gathered = 0, row = 0;
    auto finish_batch = [&] {
        model.update(schedule.at(row), s, (double)gathered, nullptr);
        if (average)
            mean.add(model);
        row += gathered;
        gathered = 0;
        s = 0;
    };
    std::vector<Run> runs = make_runs(pass->groups[g], e, pass->stride);
    for_dense_batches<T>(runs, 0, runs.size(), d, batch,
                         [&](const Gathered<T> &x, const double *y, int n, bool last) {
                             if (cancelled(pass->cancel_mark))
                                 return;
                             margins(x, n, d, model.w.data(), model.b, m);
                             *total += evaluate(loss, labels, m, y, n, r, nullptr);
                             add_gradient(x, n, d, r, model.gradient.data());
                             s += sum_block(r);
                             gathered += n;
                             if (last)
                                 finish_batch();
                         });
    model.write(v);
    if (average)
        mean.write(e->scale + g * d, average);
}

// The same for batches of one row.
template <int NV, class T, class Loss>
void row_epoch(const tk_pass *pass, const tk_epoch *e, const Loss &loss, int64_t g, double *v,
               double *average, double *total) {
    int64_t d = pass->groups[0].dim;
    RowModel<NV> model(e, g, d, pass->fit_intercept, v);
    std::vector<Run> runs = make_runs(pass->groups[g], e, pass->stride);
    auto nothing = [](RowModel<NV> &) {};
    int64_t n =
        walk_rows<NV, T>(model, pass, Schedule(e, g, pass->groups[g].n_rows), Labels(pass, g),
                         loss, runs, 0, runs.size(), 0, total, nothing, nothing);
    const double *scale = e->scale + g * d;
    for (int64_t k = 0; k < d; k++)
        v[k] = scale[k] > 0 ? model.w[k / LANES][k % LANES] / scale[k] : 0;
    v[d] = model.v_d;
    if (!average)
        return;
    double sum[NV * LANES], sum_d;
    model.give_sums(sum, &sum_d);
    RunningMean mean(d);
    mean.add(sum, sum_d, (double)n);
    mean.write(scale, average);
}

template <class T, class Loss>
void sparse_epoch(const tk_pass *pass, const tk_epoch *e, const Loss &loss, int64_t g, double *v,
                  double *total) {
    int64_t d = pass->groups[0].dim, row = 0;
    SparseModel<float> model(e, g, d, v);
    Schedule schedule(e, g, pass->groups[g].n_rows);
    Labels labels(pass, g);
    std::vector<double> r;
    std::vector<Run> runs = make_runs(pass->groups[g], e, pass->stride);
    auto margin = [&](const SparseRow<T> &x) {
        return model.b + dot_sparse(x, OwnWeights<float>{model.w.data()});
    };
    for_sparse_batches<T>(runs, 0, runs.size(), e->batch_size, [&](const SparseBatch<T> &batch) {
        if (cancelled(pass->cancel_mark))
            return;
        *total += evaluate_batch(batch, loss, labels, margin, r);
        double step = schedule.at(row) / (double)batch.n, s = 0;
        for (int64_t i = 0; i < batch.n; i++) {
            model.update(batch.rows[i], step, step * r[i]);
            s += r[i];
        }
        if (pass->fit_intercept)
            model.b -= SPARSE_INTERCEPT * step * s;
        row += batch.n;
    });
    model.write(v);
}

} // namespace
} // namespace tusk

int tk_sgd(const tk_pass *pass, const tk_epoch *epoch, double *weights, double *average,
           double *loss) {
    using namespace tusk;
    return code_of([&] {
        int64_t p = pass->groups[0].dim + 1;
        bool sparse = tusk_is_sparse(pass->groups[0].kind);
        return with_loss(pass, [&](auto kind) {
            return with_storage(pass, [&]<class T>(const T *) {
                parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
                    loss[g] = 0;
                    double *v = weights + g * p, *mean = average ? average + g * p : nullptr;
                    if (sparse) {
                        sparse_epoch<T>(pass, epoch, kind, g, v, &loss[g]);
                        if (mean)
                            std::copy_n(v, p, mean);
                    } else if (is_rowwise(epoch, p - 1)) {
                        for_width(p - 1, [&]<int NV>() {
                            row_epoch<NV, T>(pass, epoch, kind, g, v, mean, &loss[g]);
                        });
                    } else {
                        dense_epoch<T>(pass, epoch, kind, g, v, mean, &loss[g]);
                    }
                });
                return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
            });
        });
    });
}
