// Trains the groups of a pass: small ones concurrently, the parts of a large batch with all
// threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "../shared/common/groups.hpp"
#include "../shared/telling/progress.hpp"
#include "descent.hpp"

namespace tusk {
namespace {

constexpr int64_t LARGE = 1 << 21; // cells of a group that is worth several threads
constexpr double NONE = std::numeric_limits<double>::quiet_NaN();
constexpr double ABOVE = 1 + 1e-6; // ratio to the loss at the start above which a result counts as
                                   // worse

// The training of one group.
class Training {
public:
    Training(const tk_pass &pass, const tk_net &net, int64_t group, int threads,
             tusk_memory *memory, const Deadline &deadline = Deadline())
        : pass_(pass), net_(net), index_(group), deadline_(deadline),
          own_(pass, net, group, threads, memory) {}

    int run(double *weights, double *history, tk_net_trained *out, const Progress &progress) {
        int code = prepare();
        if (code)
            return code;
        *out = tk_net_trained{unscaled(constant_loss()), NONE, NONE, 0, 0, TK_NET_DONE};
        if (!units_.finite()) {
            out->ending = TK_NET_OUT_OF_RANGE;
            return TK_OK;
        }
        Losses begun{};
        if (net_.start)
            code = losses(&begun);
        while (!code && out->epochs < net_.epochs && out->ending == TK_NET_DONE) {
            code = epoch(history, out);
            progress.done(1, own_.rows().n);
        }
        if (!code && own_.stepper().steps())
            code = finish(weights, out);
        if (!code && net_.start)
            back_to_start(begun, weights, out);
        return code;
    }

    // The gradient of the mean loss, by the step of a single batch.
    int gradient(double *out) {
        int code = prepare();
        if (code)
            return code;
        own_.whole_gradient();
        write_weights(own_.shape(),
                      Units{units_.shift, std::vector<double>(own_.shape().inputs(), 1)},
                      own_.gradient(), out);
        return TK_OK;
    }

private:
    // Mean losses of the training rows and of held-out ones; NaN without any.
    struct Losses {
        double training, held;
    };

    int losses(Losses *out) {
        *out = {NONE, NONE};
        int code = mean_loss(own_.rows(), &out->training);
        return code || !own_.held().n ? code : mean_loss(own_.held(), &out->held);
    }

    int finish(double *weights, tk_net_trained *out) {
        if (has_best_)
            std::copy_n(own_.best(), own_.shape().floats(), own_.weights());
        centre_vectors(own_.shape(), own_.rows(), own_.weights());
        int code = mean_loss(own_.rows(), &out->loss);
        write_weights(own_.shape(), units_, own_.weights(), weights);
        return code;
    }

    // Restores the initial weights if the result is worse by the rows that judge it.
    void back_to_start(const Losses &begun, double *weights, tk_net_trained *out) const {
        bool held = own_.held().n > 0;
        double end = held ? out->held_loss : out->loss;
        if (end <= ABOVE * (held ? begun.held : begun.training)) {
            if (out->ending == TK_NET_DIVERGED)
                out->ending = TK_NET_PATIENCE; // the best weights are earlier ones
            return;
        }
        int64_t n = own_.shape().weights();
        std::copy_n(net_.start + index_ * n, n, weights);
        out->loss = begun.training;
        out->held_loss = begun.held;
        out->kept = 0;
        if (out->ending != TK_NET_LATE)
            out->ending = held ? TK_NET_PATIENCE : TK_NET_WORSE;
    }

    int prepare() {
        const Shape &shape = own_.shape();
        units_ = units_of(pass_.groups[index_], shape, net_, pass_.cancel_mark);
        int code = own_.take_rows(units_);
        if (!code)
            own_.weigh();
        code = code ? code : own_.take_memory();
        if (!code && net_.start)
            read_weights(shape, units_, net_.start + index_ * shape.weights(), own_.weights());
        else if (!code)
            draw_weights(shape, net_, own_.weights());
        return code ? code : cancelled(pass_.cancel_mark) ? (int)TK_CANCELLED : (int)TK_OK;
    }

    int epoch(double *history, tk_net_trained *out) {
        int64_t number = out->epochs;
        uint64_t seed = seed_of_epoch(net_, number);
        double loss = 0;
        bool over = false;
        int code = own_.steps({number, seed, seed, 0}, deadline_, &loss, &over);
        if (code)
            return code;
        if (over)
            return late(out);
        history[number] = unscaled(loss / (double)own_.rows().n);
        out->epochs++;
        if (!std::isfinite(loss) || !own_.finite()) {
            out->ending = TK_NET_DIVERGED;
            return TK_OK;
        }
        return judge(out);
    }

    // Handles a deadline within an epoch.
    int late(tk_net_trained *out) {
        int code = own_.finite() && own_.stepper().steps() ? judge(out) : (int)TK_OK;
        out->ending = TK_NET_LATE;
        return code;
    }

    // Evaluates held-out rows, if there are any.
    int judge(tk_net_trained *out) {
        if (!own_.held().n) {
            out->kept = out->epochs;
            return TK_OK;
        }
        double loss = 0;
        int code = mean_loss(own_.held(), &loss);
        if (std::isnan(out->held_loss) || loss < out->held_loss) {
            out->held_loss = loss;
            out->kept = out->epochs;
            std::copy_n(own_.weights(), own_.shape().floats(), own_.best());
            has_best_ = true;
        } else if (out->epochs - out->kept >= net_.patience) {
            out->ending = TK_NET_PATIENCE;
        }
        return code;
    }

    int mean_loss(const Rows &rows, double *loss) {
        double sum = 0;
        int code = own_.sum_losses(rows, &sum);
        if (!code)
            *loss = unscaled(sum / rows.total);
        return code;
    }

    // A loss in the units of the labels.
    double unscaled(double loss) const { return loss * units_.label_scale * units_.label_scale; }

    // The mean loss of the best constant, in the net's units.
    double constant_loss() const {
        const Rows &rows = own_.rows();
        double n = rows.total;
        auto weight = [&rows](int64_t i) { return rows.weight ? rows.weight[i] : 1.0f; };
        if (net_.loss == TK_NET_SQUARED) {
            double mean = 0, square = 0;
            for (int64_t i = 0; i < rows.n; i++)
                mean += weight(i) * rows.y[i] / n;
            for (int64_t i = 0; i < rows.n; i++)
                square += weight(i) * (rows.y[i] - mean) * (rows.y[i] - mean) / n;
            return square / 2;
        }
        std::vector<double> count(std::max(net_.outputs, 2), 0);
        for (int64_t i = 0; i < rows.n; i++)
            count[(int64_t)rows.y[i]] += weight(i);
        double loss = 0;
        for (double rows_of_class : count)
            loss -= rows_of_class ? rows_of_class / n * std::log(rows_of_class / n) : 0;
        return loss;
    }

    const tk_pass &pass_;
    const tk_net &net_;
    int64_t index_;
    Deadline deadline_;
    Descent own_;
    Units units_;
    bool has_best_ = false;
};

int64_t bytes_of(const Shape &shape, const tk_net &net, int64_t n) {
    int64_t floats = n * (shape.stride() + 3) + 2 * shape.floats() + turned_floats(shape) +
                     Stepper::floats(shape) + parts_of(net) * Space::floats(shape);
    if (shape.sparse)
        floats += TouchedVectors::floats(shape, std::min<int64_t>(net.batch, n));
    return floats * (int64_t)sizeof(float);
}

int train_nets(const tk_pass *pass, const tk_net *net, tusk_memory *memory, double *weights,
               double *history, tk_net_trained *trained) {
    std::vector<int64_t> small, large;
    for (int64_t g = 0; g < pass->n_groups; g++) {
        if (net->left_out && net->left_out[g])
            continue;
        bool is_large =
            parts_of(*net) > 1 && (pass->n_groups < pass->threads ||
                                   pass->groups[g].n_rows * pass->groups[g].dim >= LARGE);
        (is_large ? large : small).push_back(g);
    }
    Deadline deadline(net->seconds);
    int64_t size = pass->n_groups ? Shape(*net, pass->groups[0].dim).weights() : 0;
    Progress progress((int64_t)net->epochs * (int64_t)(small.size() + large.size()),
                      pass->n_groups);
    return train_groups(*pass, large, small, [&](int64_t g, int threads) {
        int code = Training(*pass, *net, g, threads, memory, deadline)
                       .run(weights + g * size, history + g * net->epochs, trained + g, progress);
        progress.done(net->epochs - trained[g].epochs, 0); // skipped epochs
        return code;
    });
}

} // namespace
} // namespace tusk

int64_t tk_net_weights(const tk_net *net, int64_t d) {
    return tusk::Shape(*net, d).weights();
}

int64_t tk_net_bytes(const tk_net *net, int64_t n, int64_t d) {
    return tusk::bytes_of(tusk::Shape(*net, d), *net, n);
}

int tk_train_nets(const tk_pass *pass, const tk_net *net, tusk_memory *memory, double *weights,
                  double *history, tk_net_trained *trained) {
    using namespace tusk;
    return code_of([&] { return train_nets(pass, net, memory, weights, history, trained); });
}

int tk_net_gradient(const tk_pass *pass, const tk_net *net, double *out) {
    using namespace tusk;
    tk_net dense = *net; // a gradient includes all vectors
    dense.sparse = 0;
    return code_of([&] { return Training(*pass, dense, 0, 1, nullptr).gradient(out); });
}
