// A net, rows of a group, and steps of the net over these.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

#include "../shared/pool.hpp"
#include "inputs.hpp"
#include "steps.hpp"

namespace tusk {

// A training's rows in memory, and its deadline.

// Deadline of all trainings.
class Deadline {
public:
    explicit Deadline(double seconds = 0)
        : limited_(seconds > 0),
          end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(std::min(seconds, 1e9)))) {}
    bool over() const { return limited_ && Clock::now() >= end_; }

private:
    using Clock = std::chrono::steady_clock;
    bool limited_;
    Clock::time_point end_;
};

// The rows of a group in memory.
class Copied {
public:
    int take(tusk_memory *memory, const tusk_group &group, const Shape &shape, const Units &units,
             const Labels &labels, int64_t cancel_mark) {
        int64_t n = group.n_rows, width = shape.stride();
        bool own = group.extras & TUSK_WEIGHTS, weighs = own || labels.net->class_weight;
        int code = memory_.take(memory, n * (width + 1 + weighs));
        if (code)
            return code;
        float *x = memory_.data(), *y = x + n * width;
        weight_ = weighs ? y + n : nullptr;
        if (weighs && !own)
            std::fill_n(weight_, n, 1.0f);
        copy_rows(group, shape, units, labels, {x, y, own ? weight_ : nullptr}, cancel_mark);
        rows_ = {x, y, n, weight_, own ? total_weight(group) * units.weight : (double)n};
        return TK_OK;
    }
    // The sum of the weights, times those of the classes unless NULL.
    double total(const double *by_class) const {
        double sum = 0;
        for (int64_t i = 0; i < rows_.n; i++)
            sum += weight_[i] * (by_class ? by_class[(int64_t)rows_.y[i]] : 1);
        return sum;
    }
    // Multiplies the weights by those of the classes, and by a factor.
    void weigh(double factor, const double *by_class) {
        for (int64_t i = 0; i < rows_.n; i++)
            weight_[i] *= (float)(factor * (by_class ? by_class[(int64_t)rows_.y[i]] : 1));
        if (rows_.n)
            rows_.total = total(nullptr);
    }
    const Rows &rows() const { return rows_; }

private:
    Charged<float> memory_;
    float *weight_ = nullptr;
    Rows rows_{};
};

constexpr int64_t MOST_PARTS = 16; // of a batch, each with its own gradient
// Rows times weights of a batch that is worth waking other threads; batches of 256 rows and 4,000
// weights took half as long again with them, batches of 1,024 rows a sixth less.
constexpr int64_t WORTH_WAKING = 1 << 21;

// Number of parts of a batch, from its size alone, so that no bit depends on threads.
inline int64_t parts_of(const tk_net &net) {
    return std::clamp<int64_t>(net.batch / ROWS, 1, MOST_PARTS);
}

inline int64_t classes_of(const tk_net &net) {
    return net.loss == TK_NET_LOGISTIC ? 2 : net.outputs;
}

// Floats of the transposed matrices.
inline int64_t turned_floats(const Shape &shape) {
    int64_t n = shape.layers[0].out * padded(shape.embedded());
    for (const Layer &layer : shape.layers)
        n += layer.few ? 0 : layer.out * padded(layer.in);
    return n;
}

// The weights with the matrices that a pass reads transposed.
class Turned {
public:
    int take(tusk_memory *memory, const Shape &shape) {
        int64_t n = turned_floats(shape);
        int code = memory_.take(memory, n);
        if (!code)
            std::fill_n(memory_.data(), n, 0.0f);
        return code;
    }
    // Uses weights of this shape from now on.
    void look_at(const Shape &shape, const float *weights) {
        float *at = memory_.data();
        view_.flat = weights;
        view_.transposed.clear();
        for (const Layer &layer : shape.layers) {
            view_.transposed.push_back(layer.few ? weights + layer.weights : at);
            at += layer.few ? 0 : layer.out * padded(layer.in);
        }
        view_.embedded = at;
    }
    // Updates the transposed matrices; of the first layer only the part for vectors is needed.
    void renew(const Shape &shape) {
        const Layer &lowest = shape.layers[0];
        const float *weights = view_.flat;
        auto *embedded = const_cast<float *>(view_.embedded);
        for (int64_t j = 0, width = padded(shape.embedded()); width && j < lowest.out; j++)
            for (int64_t k = 0; k < shape.embedded(); k++)
                embedded[j * width + k] = weights[lowest.place(shape.plain + k, j)];
        for (size_t l = 1; l < shape.layers.size(); l++) {
            const Layer &layer = shape.layers[l];
            if (layer.few)
                continue;
            auto *to = const_cast<float *>(view_.transposed[l]);
            const float *from = weights + layer.weights;
            int64_t in = padded(layer.in), out = padded(layer.out);
            for (int64_t first = 0; first < out; first += PAD) // a cache line of each row
                for (int64_t i = 0; i < layer.in; i++)
                    for (int64_t j = first; j < std::min(first + PAD, layer.out); j++)
                        to[j * in + i] = from[i * out + j];
        }
    }
    const Weights &view() const { return view_; }

private:
    Charged<float> memory_;
    Weights view_{};
};

// Seed for the order of the rows in an epoch, and for its dropout.
inline uint64_t seed_of_epoch(const tk_net &net, int64_t number) {
    return within(within(net.seed, 2), number);
}

// An epoch over rows that may be a part of all: its number, the seeds of their order and of
// dropout, and the number of rows that the epoch has visited before.
struct Visited {
    int64_t number;
    uint64_t order, dropout;
    int64_t rows_before;
};

class Descent {
public:
    Descent(const tk_pass &pass, const tk_net &net, int64_t group, int threads,
            tusk_memory *memory)
        : pass_(pass), net_(net), index_(group), threads_(threads), memory_(memory),
          shape_(net, pass.groups[group].dim), parts_(parts_of(net)) {}

    const Shape &shape() const { return shape_; }
    const Rows &rows() const { return rows_.rows(); }
    const Rows &held() const { return held_.rows(); }
    Stepper &stepper() { return stepper_; }
    float *weights() { return weights_; }
    float *best() { return best_; }
    const float *gradient() const { return spaces_[0].gradient; }

    // Copies the training rows and held-out rows, in the units.
    int take_rows(const Units &units) {
        const tusk_group &group = pass_.groups[index_];
        const double *classes = net_.label ? net_.label + index_ * net_.outputs : nullptr;
        Labels labels{&net_, pass_.positive ? pass_.positive[index_] : 1, classes};
        int code = rows_.take(memory_, group, shape_, units, labels, pass_.cancel_mark);
        if (!code && net_.held && net_.held[index_].n_rows)
            code =
                held_.take(memory_, net_.held[index_], shape_, units, labels, pass_.cancel_mark);
        return code;
    }

    // Scales the weights of rows, times those of their classes, to mean 1 over the training rows,
    // so that the rate of a step does not depend on their unit. factor: 0 to compute it from these
    // rows.
    void weigh(double factor = 0) {
        if (!rows().weight)
            return;
        const double *by_class = net_.class_weight;
        by_class = by_class ? by_class + index_ * classes_of(net_) : nullptr;
        factor = factor ? factor : (double)rows().n / rows_.total(by_class);
        rows_.weigh(factor, by_class);
        held_.weigh(factor, by_class);
    }

    // Allocates memory for weights and steps.
    int take_memory() {
        int code = order_.take(memory_, rows().n);
        code = code ? code : stepper_.take(memory_, net_, shape_);
        code = code ? code : take_weights();
        if (!code && shape_.sparse)
            code = touched_.take(memory_, shape_, std::min<int64_t>(net_.batch, rows().n));
        spaces_ = std::vector<Space>(parts_);
        for (Space &space : spaces_)
            code = code ? code : space.take(memory_, shape_);
        return code;
    }

    // Makes steps over batches of the rows, and adds to the sum of the losses before them. late:
    // whether the time was over.
    int steps(const Visited &visit, const Deadline &deadline, double *loss, bool *late) {
        int64_t n = rows().n;
        draw_order(visit.order);
        double rate = rate_of(net_, visit.number);
        for (int64_t at = 0; at < n; at += net_.batch) {
            if (cancelled(pass_.cancel_mark))
                return TK_CANCELLED;
            if ((*late = deadline.over()))
                return TK_OK;
            turned_.renew(shape_);
            uint64_t seed = within(visit.dropout, visit.rows_before + at + 1);
            add_up(at, std::min<int64_t>(net_.batch, n - at), seed, loss);
            if (cancelled(pass_.cancel_mark))
                return TK_CANCELLED; // the gradient is incomplete
            stepper_.step(rate, spaces_[0].gradient, weights_);
            if (shape_.sparse)
                step_vectors(rate, std::min<int64_t>(net_.batch, n - at));
        }
        return TK_OK;
    }

    // Leaves the gradient of the mean loss of all rows in the first part's space.
    void whole_gradient() {
        std::iota(order_.data(), order_.data() + rows().n, 0U);
        turned_.renew(shape_);
        double loss = 0;
        add_up(0, rows().n, 0, &loss);
    }

    // The sum of the losses of rows, in the net's units, at the current weights.
    int sum_losses(const Rows &rows, double *loss) {
        turned_.renew(shape_);
        Batch batch{&net_, &shape_, &turned_.view(), rows, nullptr, rows.n, pass_.cancel_mark};
        double each[MOST_PARTS];
        constexpr int64_t ONCE = 1 << 14; // rows between two checks for a cancel
        *loss = 0;
        for (int64_t at = 0; at < rows.n; at += ONCE) {
            if (cancelled(pass_.cancel_mark))
                return TK_CANCELLED;
            int64_t n = std::min(ONCE, rows.n - at);
            for_parts(threads_, [&](int64_t p) {
                each[p] =
                    losses_of(batch, at + n * p / parts_, at + n * (p + 1) / parts_, spaces_[p]);
            });
            for (int64_t p = 0; p < parts_; p++)
                *loss += each[p];
        }
        return cancelled(pass_.cancel_mark) ? (int)TK_CANCELLED : (int)TK_OK;
    }

    bool finite() const {
        float all = 0;
        for (int64_t i = 0; i < shape_.floats(); i++)
            all += 0 * weights_[i];
        return all == 0;
    }

private:
    int take_weights() {
        int64_t n = shape_.floats();
        int code = flat_.take(memory_, 2 * n);
        code = code ? code : turned_.take(memory_, shape_);
        if (code)
            return code;
        weights_ = flat_.data();
        best_ = weights_ + n;
        turned_.look_at(shape_, weights_);
        return TK_OK;
    }

    void for_parts(int threads, Ref<void(int64_t)> body) { parallel_for(parts_, threads, body); }

    // Leaves the gradient of the batch of the order's rows from `first` on in the first part's
    // space, and adds to the sum of losses.
    void add_up(int64_t first, int64_t n, uint64_t seed, double *loss) {
        Batch batch{&net_, &shape_,           &turned_.view(), rows_.rows(), order_.data() + first,
                    n,     pass_.cancel_mark, &touched_};
        const int64_t floats = shape_.of_gradient();
        double each[MOST_PARTS];
        for_parts(threads_for(n * floats), [&](int64_t p) {
            std::fill_n(spaces_[p].gradient, floats, 0.0f);
            each[p] = add_gradient(batch, n * p / parts_, n * (p + 1) / parts_, within(seed, p),
                                   spaces_[p]);
        });
        float *sum = spaces_[0].gradient;
        for (int64_t p = 1; p < parts_; p++)
            for (int64_t i = 0; i < floats; i++)
                sum[i] += spaces_[p].gradient[i];
        for (int64_t p = 0; p < parts_; p++)
            *loss += each[p];
    }

    // Moves the vectors of the last batch, of n rows. The location of the sum over a level depends
    // on the rows alone, so no bit depends on threads.
    void step_vectors(double rate, int64_t n) {
        constexpr int64_t AS_LAYERS = 8; // cost of a number of a vector, in weights of layers
        const int threads = threads_for(n * shape_.embedded() * AS_LAYERS);
        stepper_.step_vectors(rate, touched_, n, threads, weights_);
    }

    int threads_for(int64_t work) const { return work < WORTH_WAKING ? 1 : threads_; }

    void draw_order(uint64_t seed) {
        uint32_t *order = order_.data();
        auto n = (uint32_t)rows().n;
        std::iota(order, order + n, 0U);
        Random random(seed);
        for (uint32_t i = n; net_.shuffle && i > 1; i--)
            std::swap(order[i - 1], order[random.below(i)]);
    }

    const tk_pass &pass_;
    const tk_net &net_;
    int64_t index_;
    int threads_;
    tusk_memory *memory_;
    Shape shape_;
    int64_t parts_;
    Copied rows_, held_;
    Charged<uint32_t> order_;
    Charged<float> flat_;
    float *weights_ = nullptr, *best_ = nullptr;
    Turned turned_;
    Stepper stepper_;
    TouchedVectors touched_;
    std::vector<Space> spaces_;
};

} // namespace tusk
