
#include <algorithm>

#include "../shared/pool.hpp"
#include "api.h"
#include "arithmetic/floats.hpp"
#include "arithmetic/product.hpp"
#include "passes.hpp"

namespace tusk {

// Activations of hidden units, and their derivatives.

struct Activated {
    vf value, slope;
};

struct Relu {
    Activated operator()(vf z) const {
        // NaN stays NaN
        return {select(z < 0.0f, vf{}, z), select(z > 0.0f, vf{} + 1.0f, vf{})};
    }
};

struct Tanh {
    Activated operator()(vf z) const {
        vf t = exp_negative(-2.0f * vabs(z)), a = (1.0f - t) / (1.0f + t);
        a = select(z < 0.0f, -a, a);
        return {a, 1.0f - a * a};
    }
};

// z P(z), P the normal distribution (Hendrycks and Gimpel, 2016), by formula 7.1.26 of Abramowitz
// and Stegun, whose error is below 1.5e-7.
struct Gelu {
    Activated operator()(vf z) const {
        vf x = vabs(z) * 0.707106781f, e = exp_negative(-x * x);
        vf t = 1.0f / (1.0f + 0.3275911f * x);
        vf p = t * 1.061405429f - 1.453152027f;
        p = p * t + 1.421413741f;
        p = p * t - 0.284496736f;
        p = p * t + 0.254829592f;
        vf tail = 0.5f * p * t * e; // probability of the distribution beyond |z|
        vf below = select(z < 0.0f, tail, 1.0f - tail);
        return {z * below, below + z * e * 0.398942280f};
    }
};

// Calls body(activation).
template <class Body> inline void with_activation(int32_t activation, Body &&body) {
    if (activation == TK_NET_RELU)
        body(Relu{});
    else if (activation == TK_NET_TANH)
        body(Tanh{});
    else
        body(Gelu{});
}

namespace {

int64_t widest(const Shape &shape) {
    int64_t most = 0;
    for (const Layer &layer : shape.layers)
        most = std::max({most, padded(layer.in), padded(layer.out)});
    return most;
}

// A layer of few units: sums over lanes of inputs.
void few_sums(const Layer &layer, const float *w, const float *x, int64_t rows, float *z) {
    int64_t in = padded(layer.in), out = padded(layer.out);
    for (int64_t i = 0; i < rows; i++, x += in, z += out)
        for (int64_t j = 0; j < layer.out; j++) {
            vf total{};
            for (int64_t k = 0; k < in; k += WIDE)
                total += load(x + k) * load(w + layer.weights + j * in + k);
            z[j] = w[layer.biases + j] + sum(total);
        }
}

void sums(const Layer &layer, const float *w, const float *x, int64_t rows, float *z) {
    if (layer.few)
        few_sums(layer, w, x, rows, z);
    else
        multiply({x, padded(layer.in), 1}, w + layer.weights, {rows, layer.in, padded(layer.out)},
                 z, Start::row, w + layer.biases);
}

// Replaces sums by activations; slope: NULL without gradients.
template <class Activation>
void activate(Activation activation, float *z, float *slope, int64_t n) {
    for (int64_t i = 0; i < n; i += WIDE) {
        Activated a = activation(load(z + i));
        store(z + i, a.value);
        if (slope)
            store(slope + i, a.slope);
    }
}

template <class Activation>
void activate_some(Activation activation, Dropout &dropout, float *z, float *slope, int64_t n) {
    for (int64_t i = 0; i < n; i += WIDE) {
        Activated a = activation(load(z + i));
        vf factor = dropout.next();
        store(z + i, a.value * factor);
        store(slope + i, a.slope * factor);
    }
}

void forward(const Batch &batch, int64_t rows, Dropout *dropout, bool slopes, Space &space) {
    const auto &layers = batch.shape->layers;
    for (size_t l = 0; l + 1 < layers.size(); l++) {
        float *z = space.input[l + 1], *slope = slopes ? space.slope[l + 1] : nullptr;
        sums(layers[l], batch.weights->flat, space.input[l], rows, z);
        int64_t n = rows * padded(layers[l].out);
        with_activation(batch.net->activation, [&](auto activation) {
            if (dropout)
                activate_some(activation, *dropout, z, slope, n);
            else
                activate(activation, z, slope, n);
        });
    }
    sums(layers.back(), batch.weights->flat, space.input[layers.size() - 1], rows, space.margins);
}

void add_layer_gradient(const Layer &layer, const float *x, const float *delta, int64_t rows,
                        float *gradient) {
    int64_t in = padded(layer.in), out = padded(layer.out);
    float *g = gradient + layer.weights, *b = gradient + layer.biases;
    if (layer.few)
        multiply({delta, 1, out}, x, {layer.out, rows, in}, g, Start::itself);
    else
        multiply({x, 1, in}, delta, {layer.in, rows, out}, g, Start::itself);
    for (int64_t j = 0; j < out; j += WIDE) {
        vf total = load(b + j);
        for (int64_t i = 0; i < rows; i++)
            total += load(delta + i * out + j);
        store(b + j, total);
    }
}

// The derivatives by the sums of the layer before a layer of few units.
void few_deltas(const Layer &layer, const float *w, const float *delta, const float *slope,
                int64_t rows, float *next) {
    int64_t in = padded(layer.in), out = padded(layer.out);
    for (int64_t i = 0; i < rows; i++, delta += out)
        for (int64_t k = 0; k < in; k += WIDE, slope += WIDE, next += WIDE) {
            vf total{};
            for (int64_t j = 0; j < layer.out; j++)
                total += delta[j] * load(w + j * in + k);
            store(next, total * load(slope));
        }
}

// Adds the gradient of the vectors of the levels of a batch's rows, from `from` on. delta:
// derivatives by the sums of the first layer.
void add_vector_gradient(const Batch &batch, const float *delta, int64_t from, int64_t rows,
                         Space &space) {
    const Shape &shape = *batch.shape;
    if (shape.tables.empty())
        return;
    int64_t out = shape.layers[0].out, width = padded(shape.embedded());
    float *by_input = shape.sparse ? batch.touched->delta(from) : space.delta[0];
    multiply({delta, padded(out), 1}, batch.weights->embedded, {rows, out, width}, by_input,
             Start::zero);
    const int32_t *level = space.level.data();
    if (shape.sparse) {
        std::copy_n(level, rows * (int64_t)shape.tables.size(), batch.touched->level(from));
        return;
    }
    for (int64_t i = 0; i < rows; i++, by_input += width)
        for (const Table &table : shape.tables) {
            int64_t at = *level++;
            if (at < 0)
                continue;
            float *g = space.gradient + table.vectors + at * table.dim;
            for (int64_t k = 0; k < table.dim; k++)
                g[k] += by_input[table.input - shape.plain + k];
        }
}

void backward(const Batch &batch, int64_t from, int64_t rows, Space &space) {
    const auto &layers = batch.shape->layers;
    const float *delta = space.margins;
    for (size_t l = layers.size(); l-- > 0;) {
        const Layer &layer = layers[l];
        add_layer_gradient(layer, space.input[l], delta, rows, space.gradient);
        if (!l)
            return add_vector_gradient(batch, delta, from, rows, space);
        int64_t in = padded(layer.in), n = rows * in;
        float *next = space.delta[l % 2];
        const float *w = batch.weights->transposed[l];
        if (layer.few) {
            few_deltas(layer, w, delta, space.slope[l], rows, next);
        } else {
            multiply({delta, padded(layer.out), 1}, w, {rows, layer.out, in}, next, Start::zero);
            for (int64_t i = 0; i < n; i += WIDE)
                store(next + i, load(next + i) * load(space.slope[l] + i));
        }
        delta = next;
    }
}

// Copies the inputs of a row: its plain features, and the vectors of its levels.
void copy_vectors(const Batch &batch, const float *row, float *input, int32_t *level) {
    const Shape &shape = *batch.shape;
    std::copy_n(row, shape.plain, input);
    for (const Table &table : shape.tables) {
        *level = (int32_t)row[shape.plain + (&table - shape.tables.data())];
        const float *vector = batch.weights->flat + table.vectors + *level * table.dim;
        if (*level++ < 0)
            std::fill_n(input + table.input, table.dim, 0.0f);
        else
            std::copy_n(vector, table.dim, input + table.input);
    }
}

// Copies the inputs and labels of rows `from` on of a batch.
void gather(const Batch &batch, int64_t from, int64_t rows, Space &space) {
    constexpr int64_t AHEAD = 8;
    const Shape &shape = *batch.shape;
    int64_t in = padded(shape.inputs()), stride = shape.stride();
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = batch.order ? batch.order[from + i] : from + i;
        if (batch.order && from + i + AHEAD < batch.n)
            for (int64_t k = 0; k < stride; k += PAD)
                __builtin_prefetch(batch.rows.x + batch.order[from + i + AHEAD] * stride + k);
        const float *row = batch.rows.x + at * stride;
        space.label[i] = batch.rows.y[at];
        if (batch.rows.weight)
            space.weight[i] = batch.rows.weight[at];
        if (shape.tables.empty())
            copy(row, in, space.input[0] + i * in);
        else
            copy_vectors(batch, row, space.input[0] + i * in,
                         space.level.data() + i * (int64_t)shape.tables.size());
    }
}

double losses_here(const Batch &batch, int64_t rows, float scale, Space &space) {
    const float *weight = batch.rows.weight ? space.weight : nullptr;
    return output_losses(*batch.net, space.margins, space.label, weight, rows, scale);
}

} // namespace

int64_t Space::floats(const Shape &shape) {
    int64_t n = padded(shape.outputs()) + 2 * widest(shape) + 2;
    for (const Layer &layer : shape.layers)
        n += 2 * padded(layer.in);
    return n * ROWS + shape.of_gradient();
}

int Space::take(tusk_memory *memory, const Shape &shape) {
    int64_t n = floats(shape);
    int code = memory_.take(memory, n);
    if (code)
        return code;
    float *at = memory_.data();
    std::fill_n(at, n, 0.0f);
    auto next = [&](int64_t size) {
        float *here = at;
        at += size;
        return here;
    };
    for (const Layer &layer : shape.layers) {
        input.push_back(next(ROWS * padded(layer.in)));
        slope.push_back(next(ROWS * padded(layer.in)));
    }
    margins = next(ROWS * padded(shape.outputs()));
    for (float *&one : delta)
        one = next(ROWS * widest(shape));
    label = next(ROWS);
    weight = next(ROWS);
    level.resize(ROWS * shape.tables.size());
    gradient = next(shape.of_gradient());
    return TK_OK;
}

double losses_of(const Batch &batch, int64_t from, int64_t to, Space &space) {
    double total = 0;
    for (; from < to && !cancelled(batch.cancel_mark); from += ROWS) {
        int64_t rows = std::min(ROWS, to - from);
        gather(batch, from, rows, space);
        forward(batch, rows, nullptr, false, space);
        total += losses_here(batch, rows, 0, space);
    }
    return total;
}

double add_gradient(const Batch &batch, int64_t from, int64_t to, uint64_t seed, Space &space) {
    double total = 0;
    Dropout dropout(batch.net->dropout, seed);
    auto scale = (float)(1.0 / (double)batch.n);
    for (; from < to && !cancelled(batch.cancel_mark); from += ROWS) {
        int64_t rows = std::min(ROWS, to - from);
        gather(batch, from, rows, space);
        forward(batch, rows, batch.net->dropout > 0 ? &dropout : nullptr, true, space);
        total += losses_here(batch, rows, scale, space);
        backward(batch, from, rows, space);
    }
    return total;
}

} // namespace tusk
