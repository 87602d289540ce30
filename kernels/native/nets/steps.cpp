#include "steps.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../shared/pool.hpp"

namespace tusk {
namespace {

constexpr double BETA1 = 0.9, BETA2 = 0.999, EPSILON = 1e-8; // values recommended by Kingma and Ba

// Algorithm 1 of Kingma and Ba, and line 12 of algorithm 2 of Loshchilov and Hutter.
struct Adam {
    float rate, kept, first_share, second_share; // 1 / (1 - beta^t) of both means

    void operator()(const float *g, float *w, float *m, float *v, int64_t n) const {
        constexpr auto b1 = (float)BETA1, b2 = (float)BETA2, epsilon = (float)EPSILON;
        for (int64_t i = 0; i < n; i++) {
            m[i] = b1 * m[i] + (1 - b1) * g[i];
            v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
            float size = __builtin_sqrtf(v[i] * second_share) + epsilon;
            w[i] = kept * w[i] - rate * first_share * m[i] / size;
        }
    }
};

// Algorithm 1 of Loshchilov and Hutter, with the momentum of PyTorch: v = momentum v + g.
struct Momentum {
    float rate, kept, momentum;

    void operator()(const float *g, float *w, float *v, float *, int64_t n) const {
        for (int64_t i = 0; i < n; i++) {
            v[i] = momentum * v[i] + g[i];
            w[i] = kept * w[i] - rate * v[i];
        }
    }
};

// Calls body(move) with the algorithm's step of number `steps` at `rate`.
template <class Body> void with_move(const tk_net &net, double rate, int64_t steps, Body &&body) {
    auto t = (double)steps;
    auto kept = (float)(1 - rate * net.weight_decay);
    if (net.algorithm == TK_NET_ADAM)
        body(Adam{(float)rate, kept, (float)(1 / (1 - std::pow(BETA1, t))),
                  (float)(1 / (1 - std::pow(BETA2, t)))});
    else
        body(Momentum{(float)rate, kept, (float)net.momentum});
}

// Adds the gradients of a vector that occurs several times to its first one, in their order, and
// calls body(vector, gradient) once for each vector.
template <class Body>
void each_read(const tk_net_held &held, const tk_net_read &read, Body &&body) {
    constexpr int32_t NONE = -1;
    std::vector<float *> sum((size_t)read.n);
    float *gradient = read.gradient;
    for (int64_t i = 0; i < read.n; i++) {
        int32_t vector = read.which[i];
        int64_t length = held.start[vector + 1] - held.start[vector];
        int32_t &first = held.first[vector];
        sum[(size_t)i] = first == NONE ? gradient : nullptr;
        if (first == NONE)
            first = (int32_t)i;
        else
            for (int64_t k = 0; k < length; k++)
                sum[(size_t)first][k] += gradient[k];
        gradient += length;
    }
    for (int64_t i = 0; i < read.n; i++) {
        if (!sum[(size_t)i])
            continue;
        held.first[read.which[i]] = NONE;
        body(read.which[i], sum[(size_t)i]);
    }
}

} // namespace

int step_held(const tk_net &net, double rate, int64_t steps, const tk_net_held &held,
              const tk_net_read &read) {
    const int64_t total = held.start[held.n];
    float *w = held.numbers, *m = w + total, *v = m + total;
    std::vector<float> whole(net.sparse ? 0 : (size_t)total);
    with_move(net, rate, steps, [&](auto move) {
        each_read(held, read, [&](int32_t vector, const float *gradient) {
            int64_t at = held.start[vector], length = held.start[vector + 1] - at;
            if (net.sparse)
                move(gradient, w + at, m + at, v + at, length);
            else
                std::copy_n(gradient, length, whole.data() + at);
        });
        if (!net.sparse)
            move(whole.data(), w, m, v, total);
    });
    return TK_OK;
}

void Stepper::use(const tk_net &net, const Shape &shape, float *first, float *second) {
    net_ = &net;
    shape_ = &shape;
    first_ = first;
    second_ = second;
}

int Stepper::take(tusk_memory *memory, const tk_net &net, const Shape &shape) {
    net_ = &net;
    shape_ = &shape;
    int code = memory_.take(memory, floats(shape));
    if (code)
        return code;
    first_ = memory_.data();
    second_ = first_ + shape.floats();
    std::fill_n(first_, floats(shape), 0.0f);
    return TK_OK;
}

void Stepper::step(double rate, const float *gradient, float *weights) {
    steps_++;
    with_move(*net_, rate, steps_, [&](auto move) {
        auto over = [&](int64_t from, int64_t to, auto step) {
            step(gradient + from, weights + from, first_ + from, second_ + from, to - from);
        };
        auto of_biases = move;
        of_biases.kept = 1; // biases do not decay
        for (const Layer &layer : shape_->layers) {
            over(layer.weights, layer.biases, move);
            over(layer.biases, layer.end(), of_biases);
        }
        over(shape_->of_layers(), shape_->of_gradient(), move);
    });
}

void Stepper::step_vectors(double rate, TouchedVectors &touched, int64_t n, int threads,
                           float *weights) {
    with_move(*net_, rate, steps_, [&](auto move) {
        parallel_for((int64_t)shape_->tables.size(), threads, [&](int64_t t) {
            touched.each(t, n, [&](const float *gradient, int64_t at, int64_t length) {
                move(gradient, weights + at, first_ + at, second_ + at, length);
            });
        });
    });
}

double rate_of(const tk_net &net, int64_t epoch) {
    if (net.schedule == TK_NET_COSINE)
        return net.learning_rate * 0.5 * (1 + std::cos(M_PI * (double)epoch / net.epochs));
    if (net.schedule == TK_NET_STEPS)
        return net.learning_rate * std::pow(net.decay, (double)(epoch / net.decay_every));
    return net.learning_rate;
}

} // namespace tusk
