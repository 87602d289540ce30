// Serial stochastic gradient descent: each batch in turn makes the step v -= step * (mean gradient
// of the batch). Robbins and Monro, A stochastic approximation method, 1951; mini-batches and
// schedules as in design.md, section 4.
#include "rowwise.hpp"

namespace tusk {
namespace {

std::vector<Run> runs_of(const tk_pass *pass, const tk_epoch *e, int64_t g) {
    if (e->drawn)
        return drawn_runs(pass->groups[g], *e->drawn, g);
    return make_runs(pass->groups[g], e, pass->stride);
}

template <class T>
void dense_epoch(const tk_pass *pass, const tk_epoch *e, int64_t g, double *v, double *average,
                 double *total) {
    int64_t d = pass->groups[0].dim;
    DenseModel model(e, g, d, pass->fit_intercept, v);
    RunningMean mean(d);
    Schedule schedule(e, g, pass->groups[g].n_rows);
    const Loss loss(pass);
    const Labels labels(pass, g);
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
    std::vector<Run> runs = runs_of(pass, e, g);
    for_dense_batches<T>(runs, 0, runs.size(), d, Batches(e, g), StepWeights(pass, g, e),
                         [&](const Gathered<T> &x, const Targets &y, int n, bool last) {
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
void row_epoch(const tk_pass *pass, const tk_epoch *e, int64_t g, double *v, double *average,
               double *total) {
    int64_t d = pass->groups[0].dim;
    RowSteps steps{pass, e, g, v, nullptr, StepWeights(pass, g, e)};
    std::vector<Run> runs = runs_of(pass, e, g);
    walk_rows(steps, runs, 0, runs.size(), 0);
    *total += steps.loss;
    const double *scale = e->scale + g * d;
    for (int64_t k = 0; k < d; k++)
        v[k] = scale[k] > 0 ? steps.w[k] / scale[k] : 0;
    v[d] = steps.v_d;
    if (!average)
        return;
    RunningMean mean(d);
    mean.add(steps.sum, steps.sum_d, (double)steps.n);
    mean.write(scale, average);
}

template <class T>
void sparse_epoch(const tk_pass *pass, const tk_epoch *e, int64_t g, double *v, double *average,
                  double *total) {
    int64_t d = pass->groups[0].dim, row = 0;
    SparseModel<float> model(e, g, d, v);
    LateMean<float> late(e, pass->groups[g].n_rows, average ? d : 0);
    Schedule schedule(e, g, pass->groups[g].n_rows);
    const Loss loss(pass);
    const Labels labels(pass, g);
    std::vector<double> r;
    std::vector<Run> runs = runs_of(pass, e, g);
    auto margin = [&](const SparseRow<T> &x) {
        return model.b + dot_sparse(x, OwnWeights<float>{model.w.data()});
    };
    for_sparse_batches<T>(runs, 0, runs.size(), Batches(e, g), StepWeights(pass, g, e),
                          [&](const SparseBatch<T> &batch) {
                              if (cancelled(pass->cancel_mark))
                                  return;
                              batch.prefetch_next(model.w.data(), d);
                              *total += evaluate_batch(batch, loss, labels, margin, r);
                              bool noted = average && late.begun(row);
                              double step = schedule.at(row) / (double)batch.n, s = 0;
                              double share = noted ? late.share(row) : 0;
                              for (int64_t i = 0; i < batch.n; i++) {
                                  if (noted)
                                      model.update(batch.rows[i], step, step * r[i], share,
                                                   late.taken.data());
                                  else
                                      model.update(batch.rows[i], step, step * r[i]);
                                  s += r[i];
                              }
                              if (pass->fit_intercept) {
                                  model.b -= SPARSE_INTERCEPT * step * s;
                                  late.taken_b += share * SPARSE_INTERCEPT * step * s;
                              }
                              row += batch.n;
                          });
    model.write(v);
    if (average)
        late.write(model, average);
}

} // namespace
} // namespace tusk

int tk_sgd(const tk_pass *pass, const tk_epoch *epoch, double *weights, double *average,
           double *loss) {
    using namespace tusk;
    return code_of([&] {
        int64_t p = pass->groups[0].dim + 1;
        bool sparse = tusk_is_sparse(pass->groups[0].kind);
        return with_storage(pass, [&]<class T>(const T *) {
            parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
                loss[g] = 0;
                double *v = weights + g * p, *mean = average ? average + g * p : nullptr;
                if (sparse) {
                    sparse_epoch<T>(pass, epoch, g, v, mean, &loss[g]);
                } else if (is_rowwise(epoch, p - 1)) {
                    row_epoch(pass, epoch, g, v, mean, &loss[g]);
                } else {
                    dense_epoch<T>(pass, epoch, g, v, mean, &loss[g]);
                }
            });
            return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
        });
    });
}
