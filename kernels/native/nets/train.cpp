// Trains the groups of a pass: small ones side by side, the parts of a large batch with all
// threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "../shared/pool.hpp"
#include "copied.hpp"
#include "steps.hpp"

namespace tusk {
namespace {

constexpr int64_t LARGE = 1 << 21; // cells of a group that is worth several threads
constexpr int64_t MOST_PARTS = 16; // of a batch, each with a gradient of its own
// Rows times weights of a batch that is worth waking other threads; batches of 256 rows and 4,000
// weights took half as long again with them, batches of 1,024 rows a sixth less.
constexpr int64_t WORTH_WAKING = 1 << 21;
constexpr double NONE = std::numeric_limits<double>::quiet_NaN();

// Into how many parts a batch is cut; from its size alone, so that no bit depends on threads.
int64_t parts_of(const tk_net &net) {
    return std::clamp<int64_t>(net.batch / ROWS, 1, MOST_PARTS);
}

int64_t classes_of(const tk_net &net) {
    return net.loss == TK_NET_LOGISTIC ? 2 : net.outputs;
}

// Floats of the transposed matrices.
int64_t turned_floats(const Shape &shape) {
    int64_t n = shape.layers[0].out * padded(shape.embedded());
    for (const Layer &layer : shape.layers)
        n += layer.few ? 0 : layer.out * padded(layer.in);
    return n;
}

// The training of one group.
class Training {
public:
    Training(const tk_pass &pass, const tk_net &net, int64_t group, int threads,
             tusk_memory *memory, const Deadline &deadline = Deadline())
        : pass_(pass), net_(net), index_(group), threads_(threads), memory_(memory),
          deadline_(deadline), shape_(net, pass.groups[group].dim), parts_(parts_of(net)) {}

    int run(double *weights, double *history, tk_net_trained *out) {
        int code = prepare();
        if (code)
            return code;
        *out = tk_net_trained{unscaled(constant_loss()), NONE, NONE, 0, 0, TK_NET_DONE};
        if (!units_.finite()) {
            out->ending = TK_NET_OUT_OF_RANGE;
            return TK_OK;
        }
        while (!code && out->epochs < net_.epochs && out->ending == TK_NET_DONE)
            code = epoch(history, out);
        if (code || !stepper_.steps())
            return code;
        if (has_best_)
            std::copy_n(best_, shape_.floats(), weights_);
        centre_vectors(shape_, rows_.rows(), weights_);
        transpose();
        code = mean_loss(rows_.rows(), &out->loss);
        write_weights(shape_, units_, weights_, weights);
        return code;
    }

    // The gradient of the mean loss, by the step of a single batch.
    int gradient(double *out) {
        int code = prepare();
        if (code)
            return code;
        std::iota(order_.data(), order_.data() + rows_.rows().n, 0U);
        transpose();
        double loss = 0;
        add_up(0, rows_.rows().n, 0, &loss);
        write_weights(shape_, Units{units_.shift, std::vector<double>(shape_.inputs(), 1)},
                      spaces_[0].gradient, out);
        return TK_OK;
    }

private:
    int prepare() {
        const tusk_group &group = pass_.groups[index_];
        units_ = units_of(group, shape_, net_, pass_.cancel_mark);
        const double *classes = net_.label ? net_.label + index_ * net_.outputs : nullptr;
        Labels labels{&net_, pass_.positive ? pass_.positive[index_] : 1, classes};
        int code = rows_.take(memory_, group, shape_, units_, labels, pass_.cancel_mark);
        if (!code && net_.held && net_.held[index_].n_rows)
            code =
                held_.take(memory_, net_.held[index_], shape_, units_, labels, pass_.cancel_mark);
        if (!code)
            weigh();
        code = code ? code : order_.take(memory_, group.n_rows);
        code = code ? code : stepper_.take(memory_, net_, shape_);
        code = code ? code : take_weights();
        spaces_ = std::vector<Space>(parts_);
        for (Space &space : spaces_)
            code = code ? code : space.take(memory_, shape_);
        if (!code && net_.start)
            read_weights(shape_, units_, net_.start + index_ * shape_.weights(), weights_);
        else if (!code)
            draw_weights(shape_, net_, weights_);
        return code ? code : cancelled(pass_.cancel_mark) ? (int)TK_CANCELLED : (int)TK_OK;
    }

    // Makes the weights of rows, times those of their classes, 1 on average over the training
    // rows, so that the rate of a step does not depend on their unit.
    void weigh() {
        if (!rows_.rows().weight)
            return;
        const double *by_class = net_.class_weight;
        by_class = by_class ? by_class + index_ * classes_of(net_) : nullptr;
        double factor = (double)rows_.rows().n / rows_.total(by_class);
        rows_.weigh(factor, by_class);
        held_.weigh(factor, by_class);
    }

    int take_weights() {
        int64_t n = shape_.floats(), turned = turned_floats(shape_);
        int code = flat_.take(memory_, 2 * n + turned);
        if (code)
            return code;
        weights_ = flat_.data();
        best_ = weights_ + n;
        float *at = best_ + n;
        std::fill_n(at, turned, 0.0f);
        view_.flat = weights_;
        for (const Layer &layer : shape_.layers) {
            view_.transposed.push_back(layer.few ? weights_ + layer.weights : at);
            at += layer.few ? 0 : layer.out * padded(layer.in);
        }
        view_.embedded = at;
        return TK_OK;
    }

    // Renews the transposed matrices; of the first layer only the part of vectors is read.
    void transpose() {
        const Layer &lowest = shape_.layers[0];
        auto *embedded = const_cast<float *>(view_.embedded);
        for (int64_t j = 0, width = padded(shape_.embedded()); width && j < lowest.out; j++)
            for (int64_t k = 0; k < shape_.embedded(); k++)
                embedded[j * width + k] = weights_[lowest.place(shape_.plain + k, j)];
        for (size_t l = 1; l < shape_.layers.size(); l++) {
            const Layer &layer = shape_.layers[l];
            if (layer.few)
                continue;
            auto *to = const_cast<float *>(view_.transposed[l]);
            const float *from = weights_ + layer.weights;
            int64_t in = padded(layer.in), out = padded(layer.out);
            for (int64_t first = 0; first < out; first += PAD) // a cache line of each row
                for (int64_t i = 0; i < layer.in; i++)
                    for (int64_t j = first; j < std::min(first + PAD, layer.out); j++)
                        to[j * in + i] = from[i * out + j];
        }
    }

    void for_parts(int threads, Ref<void(int64_t)> body) { parallel_for(parts_, threads, body); }

    // Leaves the gradient of the batch of the order's rows from `first` on in the first part's
    // space, and adds to the sum of losses.
    void add_up(int64_t first, int64_t n, uint64_t seed, double *loss) {
        Batch batch{&net_, &shape_,          &view_, rows_.rows(), order_.data() + first,
                    n,     pass_.cancel_mark};
        double each[MOST_PARTS];
        int threads = n * shape_.floats() < WORTH_WAKING ? 1 : threads_;
        for_parts(threads, [&](int64_t p) {
            std::fill_n(spaces_[p].gradient, shape_.floats(), 0.0f);
            each[p] = add_gradient(batch, n * p / parts_, n * (p + 1) / parts_, within(seed, p),
                                   spaces_[p]);
        });
        float *sum = spaces_[0].gradient;
        for (int64_t p = 1; p < parts_; p++)
            for (int64_t i = 0; i < shape_.floats(); i++)
                sum[i] += spaces_[p].gradient[i];
        for (int64_t p = 0; p < parts_; p++)
            *loss += each[p];
    }

    int epoch(double *history, tk_net_trained *out) {
        int64_t n = rows_.rows().n, number = out->epochs;
        uint64_t seed = within(within(net_.seed, 2), number);
        draw_order(seed);
        double rate = rate_of(net_, number), loss = 0;
        for (int64_t at = 0; at < n; at += net_.batch) {
            if (cancelled(pass_.cancel_mark))
                return TK_CANCELLED;
            if (deadline_.over())
                return late(out);
            transpose();
            add_up(at, std::min<int64_t>(net_.batch, n - at), within(seed, at + 1), &loss);
            if (cancelled(pass_.cancel_mark))
                return TK_CANCELLED; // the gradient is incomplete
            stepper_.step(rate, spaces_[0].gradient, weights_);
        }
        history[number] = unscaled(loss / (double)n);
        out->epochs++;
        if (!std::isfinite(loss) || !finite()) {
            out->ending = TK_NET_DIVERGED;
            return TK_OK;
        }
        return judge(out);
    }

    // Ends within an epoch.
    int late(tk_net_trained *out) {
        int code = finite() && stepper_.steps() ? judge(out) : (int)TK_OK;
        out->ending = TK_NET_LATE;
        return code;
    }

    // Looks at the rows held out, if there are any.
    int judge(tk_net_trained *out) {
        if (!held_.rows().n) {
            out->kept = out->epochs;
            return TK_OK;
        }
        double loss = 0;
        transpose();
        int code = mean_loss(held_.rows(), &loss);
        if (std::isnan(out->held_loss) || loss < out->held_loss) {
            out->held_loss = loss;
            out->kept = out->epochs;
            std::copy_n(weights_, shape_.floats(), best_);
            has_best_ = true;
        } else if (out->epochs - out->kept >= net_.patience) {
            out->ending = TK_NET_PATIENCE;
        }
        return code;
    }

    void draw_order(uint64_t seed) {
        uint32_t *order = order_.data();
        auto n = (uint32_t)rows_.rows().n;
        std::iota(order, order + n, 0U);
        Random random(seed);
        for (uint32_t i = n; net_.shuffle && i > 1; i--)
            std::swap(order[i - 1], order[random.below(i)]);
    }

    int mean_loss(const Rows &rows, double *loss) {
        Batch batch{&net_, &shape_, &view_, rows, nullptr, rows.n, pass_.cancel_mark};
        double each[MOST_PARTS], total = 0;
        constexpr int64_t ONCE = 1 << 14; // rows between two looks at the cancel count
        for (int64_t at = 0; at < rows.n; at += ONCE) {
            if (cancelled(pass_.cancel_mark))
                return TK_CANCELLED;
            int64_t n = std::min(ONCE, rows.n - at);
            for_parts(threads_, [&](int64_t p) {
                each[p] =
                    losses_of(batch, at + n * p / parts_, at + n * (p + 1) / parts_, spaces_[p]);
            });
            for (int64_t p = 0; p < parts_; p++)
                total += each[p];
        }
        if (cancelled(pass_.cancel_mark))
            return TK_CANCELLED;
        *loss = unscaled(total / rows.total);
        return TK_OK;
    }

    bool finite() const {
        float all = 0;
        for (int64_t i = 0; i < shape_.floats(); i++)
            all += 0 * weights_[i];
        return all == 0;
    }

    // A loss in the units of the labels.
    double unscaled(double loss) const { return loss * units_.label_scale * units_.label_scale; }

    // The mean loss of the best constant, in the net's units.
    double constant_loss() const {
        const Rows &rows = rows_.rows();
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
    int threads_;
    tusk_memory *memory_;
    Deadline deadline_;
    Shape shape_;
    int64_t parts_;
    Units units_;
    Copied rows_, held_;
    Charged<uint32_t> order_;
    Charged<float> flat_;
    float *weights_ = nullptr, *best_ = nullptr;
    bool has_best_ = false;
    Weights view_{};
    Stepper stepper_;
    std::vector<Space> spaces_;
};

int64_t bytes_of(const Shape &shape, const tk_net &net, int64_t n) {
    int64_t floats = n * (shape.stride() + 3) + 2 * shape.floats() + turned_floats(shape) +
                     Stepper::floats(shape) + parts_of(net) * Space::floats(shape);
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
    std::vector<int> codes(pass->n_groups, TK_OK);
    int64_t size = pass->n_groups ? Shape(*net, pass->groups[0].dim).weights() : 0;
    auto run = [&](int64_t g, int threads) {
        if (!cancelled(pass->cancel_mark))
            codes[g] = Training(*pass, *net, g, threads, memory, deadline)
                           .run(weights + g * size, history + g * net->epochs, trained + g);
    };
    for (int64_t g : large)
        run(g, pass->threads);
    parallel_for((int64_t)small.size(), pass->threads, [&](int64_t i) { run(small[i], 1); });
    if (cancelled(pass->cancel_mark))
        return TK_CANCELLED;
    for (int code : codes)
        if (code)
            return code;
    return TK_OK;
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
    return code_of([&] { return Training(*pass, *net, 0, 1, nullptr).gradient(out); });
}
