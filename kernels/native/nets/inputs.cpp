#include "inputs.hpp"

#include <algorithm>
#include <cmath>

#include "random.hpp"

namespace tusk {
namespace {

constexpr double CONSTANT = 1e-13; // of the mean: a deviation below it is rounding

// Calls body(features, label) for each row, in order.
template <class T, class Body> void each_row(const tusk_group &group, Body &&body) {
    for (const tusk_segment *s = group.head; s; s = s->next)
        for (uint32_t i = 0; i < s->n_rows; i++)
            body((const T *)tusk_dense_values(s) + (int64_t)i * group.dim, tusk_labels(s)[i]);
}

template <class Body> void each_row(const tusk_group &group, Body &&body) {
    if (tusk_value_size(group.kind) == sizeof(float))
        each_row<float>(group, body);
    else
        each_row<double>(group, body);
}

// The inverse of a deviation, 0 for what does not vary.
double inverse(double deviation, double mean) {
    if (!std::isfinite(deviation))
        return NAN;
    return deviation > CONSTANT * std::abs(mean) ? 1 / deviation : 0;
}

} // namespace

bool Units::finite() const {
    double all = 0 * label_shift + 0 * label_scale;
    for (size_t k = 0; k < scale.size(); k++)
        all += 0 * shift[k] + 0 * scale[k];
    return all == 0;
}

Units units_of(const tusk_group &group, const tk_net &net) {
    int64_t d = group.dim;
    auto n = (double)group.n_rows;
    Units units{std::vector<double>(d, 0), std::vector<double>(d, 1)};
    if (!net.standardise)
        return units;
    std::vector<double> square(d, 0);
    double of_label = 0;
    each_row(group, [&](const auto *x, double y) {
        for (int64_t k = 0; k < d; k++)
            units.shift[k] += x[k] / n;
        units.label_shift += y / n;
    });
    each_row(group, [&](const auto *x, double y) {
        for (int64_t k = 0; k < d; k++)
            square[k] += (x[k] - units.shift[k]) * (x[k] - units.shift[k]) / n;
        of_label += (y - units.label_shift) * (y - units.label_shift) / n;
    });
    for (int64_t k = 0; k < d; k++)
        units.scale[k] = inverse(std::sqrt(square[k]), units.shift[k]);
    units.label_scale = std::sqrt(of_label);
    if (inverse(units.label_scale, units.label_shift) == 0)
        units.label_scale = 0;
    if (net.loss != TK_NET_SQUARED)
        units.label_shift = 0, units.label_scale = 1;
    return units;
}

float Labels::of(double y, const Units &units) const {
    if (net->loss == TK_NET_SQUARED)
        return units.label_scale ? (float)((y - units.label_shift) / units.label_scale) : 0;
    if (net->loss == TK_NET_LOGISTIC)
        return y == positive;
    return (float)(std::lower_bound(classes, classes + net->outputs, y) - classes);
}

void copy_rows(const tusk_group &group, const Units &units, const Labels &labels, float *x,
               float *y) {
    int64_t d = group.dim, width = padded(d);
    each_row(group, [&](const auto *row, double label) {
        for (int64_t k = 0; k < d; k++)
            x[k] = (float)((row[k] - units.shift[k]) * units.scale[k]);
        std::fill(x + d, x + width, 0.0f);
        x += width;
        *y++ = labels.of(label, units);
    });
}

void write_weights(const Shape &shape, const Units &units, const float *flat, double *out) {
    for (const Layer &layer : shape.layers) {
        bool first = &layer == &shape.layers.front(), last = &layer == &shape.layers.back();
        double factor = last ? units.label_scale : 1;
        for (int64_t j = 0; j < layer.out; j++) {
            double *bias = out++;
            *bias = factor * flat[layer.biases + j] + (last ? units.label_shift : 0);
            for (int64_t i = 0; i < layer.in; i++, out++) {
                *out = factor * flat[layer.place(i, j)] * (first ? units.scale[i] : 1);
                *bias -= first ? *out * units.shift[i] : 0;
            }
        }
    }
}

void read_weights(const Shape &shape, const Units &units, const double *given, float *flat) {
    std::fill_n(flat, shape.floats(), 0.0f);
    for (const Layer &layer : shape.layers) {
        bool first = &layer == &shape.layers.front(), last = &layer == &shape.layers.back();
        double factor = !last ? 1 : units.label_scale ? 1 / units.label_scale : 0;
        for (int64_t j = 0; j < layer.out; j++) {
            double bias = *given++ - (last ? units.label_shift : 0);
            for (int64_t i = 0; i < layer.in; i++, given++) {
                bias += first ? *given * units.shift[i] : 0;
                double scale = first ? units.scale[i] : 1;
                flat[layer.place(i, j)] = scale ? (float)(factor * *given / scale) : 0;
            }
            flat[layer.biases + j] = (float)(factor * bias);
        }
    }
}

void draw_weights(const Shape &shape, const tk_net &net, float *flat) {
    std::fill_n(flat, shape.floats(), 0.0f);
    Random random(within(net.seed, 1));
    for (const Layer &layer : shape.layers) {
        bool last = &layer == &shape.layers.back();
        bool he = !last && net.activation != TK_NET_TANH;
        double reach = std::sqrt(6.0 / (double)(layer.in + (he ? 0 : layer.out)));
        for (int64_t j = 0; j < layer.out; j++)
            for (int64_t i = 0; i < layer.in; i++)
                flat[layer.place(i, j)] = (float)(reach * random.symmetric());
    }
}

} // namespace tusk
