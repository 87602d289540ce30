// Stochastic gradient descent for several classes: each batch in turn makes a step along the mean
// gradient of log sum_k exp(m_k) - m_y, class by class, as sgd.cpp does for one margin.
#include "../classes/softmax.hpp"
#include "epoch.hpp"

namespace tusk {
namespace {

// Parameters shared by the classes of a group.
struct Task {
    const tk_pass *pass;
    const tk_epoch *epoch;
    int64_t g, d, n_classes;
    int64_t first; // first class that moves
    ClassSet classes;

    Task(const tk_pass *p, const tk_softmax *s, const tk_epoch *e, int64_t group, bool reference)
        : pass(p), epoch(e), g(group), d(p->groups[0].dim), n_classes(s->n_classes),
          first(reference), classes(s, group) {}

    // The first class's intercept never moves.
    bool fits(int64_t k) const { return pass->fit_intercept && k > 0; }
    std::vector<Run> runs() const { return make_runs(pass->groups[g], epoch, pass->stride); }
};

// The models of all classes, and the sums of the derivatives since their last step.
struct DenseClasses {
    const Task &task;
    std::vector<DenseModel> models;
    std::vector<RunningMean> means;
    std::vector<double> slope;

    DenseClasses(const Task &of, const double *v)
        : task(of), means(of.n_classes, RunningMean(of.d)), slope(of.n_classes, 0.0) {
        for (int64_t k = 0; k < of.n_classes; k++)
            models.emplace_back(of.epoch, of.g, of.d, of.fits(k), v + k * (of.d + 1));
    }

    void step(double size, int64_t rows, bool averaged) {
        for (int64_t k = task.first; k < task.n_classes; k++) {
            models[k].update(size, slope[k], (double)rows, nullptr);
            slope[k] = 0;
        }
        for (int64_t k = 0; averaged && k < task.n_classes; k++)
            means[k].add(models[k]);
    }

    void write(double *v, double *average) const {
        const double *scale = task.epoch->scale + task.g * task.d;
        for (int64_t k = 0; k < task.n_classes; k++) {
            models[k].write(v + k * (task.d + 1));
            if (average)
                means[k].write(scale, average + k * (task.d + 1));
        }
    }
};

template <class T> double dense_epoch(const Task &task, double *v, double *average) {
    const int64_t d = task.d;
    DenseClasses all(task, v);
    Schedule schedule(task.epoch, task.g, task.pass->groups[task.g].n_rows);
    ClassRows rows(task.n_classes);
    int64_t row = 0, gathered = 0;
    double total = 0;
    const auto runs = task.runs();
    const StepWeights weights(task.pass, task.g, task.epoch);
    auto block = [&](const Gathered<T> &x, const Targets &y, int n, bool last) {
        if (cancelled(task.pass->cancel_mark))
            return;
        for (int64_t k = 0; k < task.n_classes; k++)
            margins(x, n, d, all.models[k].w.data(), all.models[k].b, rows.of(k));
        total += rows.settle(task.classes, y, n);
        for (int64_t k = task.first; k < task.n_classes; k++) {
            add_gradient(x, n, d, rows.of(k), all.models[k].gradient.data());
            all.slope[k] += sum_block(rows.of(k));
        }
        gathered += n;
        if (!last)
            return;
        all.step(schedule.at(row), gathered, average);
        row += gathered;
        gathered = 0;
    };
    for_dense_batches<T>(runs, 0, runs.size(), d, task.epoch->batch_size, weights, block);
    all.write(v, average);
    return total;
}

// Takes the steps of a batch of sparse rows by one class; slopes: of its rows.
template <class T>
void step_sparse(SparseModel<float> &model, const SparseBatch<T> &batch, const double *slopes,
                 double step, bool fits) {
    double sum = 0;
    for (int64_t i = 0; i < batch.n; i++) {
        model.update(batch.rows[i], step, step * slopes[i]);
        sum += slopes[i];
    }
    if (fits)
        model.b -= SPARSE_INTERCEPT * step * sum;
}

// Leaves the derivatives of a batch at fixed weights in slopes, (n_classes, batch.n), and returns
// the sum of the losses.
template <class T>
double evaluate_batch(const Task &task, const std::vector<SparseModel<float>> &models,
                      const SparseBatch<T> &batch, ClassRows &rows, std::vector<double> &slopes) {
    double total = 0;
    slopes.resize(task.n_classes * batch.n);
    for (int64_t at = 0; at < batch.n; at += BLOCK_ROWS) {
        const int n = (int)std::min<int64_t>(BLOCK_ROWS, batch.n - at);
        for (int64_t k = 0; k < task.n_classes; k++)
            for (int i = 0; i < n; i++) {
                const OwnWeights<const float> w{models[k].w.data()};
                rows.of(k)[i] = models[k].b + dot_sparse(batch.rows[at + i], w);
            }
        total += rows.settle(task.classes, Targets{batch.y, batch.weight}.from(at), n);
        for (int64_t k = 0; k < task.n_classes; k++)
            std::copy_n(rows.of(k), n, slopes.data() + k * batch.n + at);
    }
    return total;
}

template <class T> double sparse_epoch(const Task &task, double *v) {
    const int64_t d = task.d, p = d + 1, n_classes = task.n_classes;
    std::vector<SparseModel<float>> models;
    for (int64_t k = 0; k < n_classes; k++)
        models.emplace_back(task.epoch, task.g, d, v + k * p);
    Schedule schedule(task.epoch, task.g, task.pass->groups[task.g].n_rows);
    ClassRows rows(n_classes);
    std::vector<double> slopes;
    int64_t row = 0;
    double total = 0;
    const auto runs = task.runs();
    const StepWeights weights(task.pass, task.g, task.epoch);
    auto body = [&](const SparseBatch<T> &batch) {
        if (cancelled(task.pass->cancel_mark))
            return;
        total += evaluate_batch(task, models, batch, rows, slopes);
        double step = schedule.at(row) / (double)batch.n;
        for (int64_t k = task.first; k < n_classes; k++)
            step_sparse(models[k], batch, slopes.data() + k * batch.n, step, task.fits(k));
        row += batch.n;
    };
    for_sparse_batches<T>(runs, 0, runs.size(), task.epoch->batch_size, weights, body);
    for (int64_t k = 0; k < n_classes; k++)
        models[k].write(v + k * p);
    return total;
}

} // namespace
} // namespace tusk

int tk_softmax_sgd(const tk_pass *pass, const tk_softmax *softmax, const tk_epoch *epoch,
                   int reference, double *weights, double *average, double *loss) {
    using namespace tusk;
    return code_of([&] {
        const int64_t width = softmax->n_classes * (pass->groups[0].dim + 1);
        const bool sparse = tusk_is_sparse(pass->groups[0].kind);
        return with_storage(pass, [&]<class T>(const T *) {
            parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
                const Task task(pass, softmax, epoch, g, reference);
                double *v = weights + g * width, *mean = average ? average + g * width : nullptr;
                loss[g] = sparse ? sparse_epoch<T>(task, v) : dense_epoch<T>(task, v, mean);
                if (sparse && mean)
                    std::copy_n(v, width, mean);
            });
            return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
        });
    });
}
