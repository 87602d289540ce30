
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "../shared/pool.hpp"
#include "arithmetic/random.hpp"
#include "inputs.hpp"
#include "shape.hpp"

namespace tusk {

// Conversion of rows with one feature per level of each category to rows of level numbers.

// Reads one row at a time: the plain features and, after them, the number of the level in each
// table, or -1 if the row has none.
class Levels {
public:
    Levels(const Shape &shape, bool sparse)
        : row_(shape.plain + shape.tables.size()), plain_(shape.plain) {
        if (shape.tables.empty() && !sparse)
            return; // rows are read unchanged
        size_t t = 0;
        for (int64_t k = 0; k < shape.features; k++) {
            while (t < shape.tables.size() && k >= shape.tables[t].first + shape.tables[t].levels)
                t++;
            bool in_table = t < shape.tables.size() && k >= shape.tables[t].first;
            int64_t place = in_table ? plain_ + (int64_t)t : (int64_t)at_.size() - inside_;
            inside_ += in_table;
            at_.push_back({place, in_table ? k - shape.tables[t].first : -1});
        }
    }

    template <class T> const double *of_dense(const T *x) {
        clear();
        for (size_t k = 0; k < at_.size(); k++)
            if (x[k] != 0)
                put((int64_t)k, (double)x[k]);
        return row_.data();
    }

    template <class T> const double *of_sparse(const tusk_segment *s, int64_t row) {
        clear();
        const uint32_t *start = tusk_row_starts(s) + row;
        const T *values = (const T *)tusk_sparse_values(s);
        for (uint32_t i = start[0]; i < start[1]; i++)
            put(tusk_indices(s)[i], (double)values[i]);
        return row_.data();
    }

private:
    struct Place {
        int64_t place, level; // level: -1 for a plain feature
    };

    void clear() {
        std::fill(row_.begin(), row_.begin() + plain_, 0.0);
        std::fill(row_.begin() + plain_, row_.end(), -1.0);
    }
    void put(int64_t feature, double value) {
        Place p = at_[(size_t)feature];
        row_[(size_t)p.place] = p.level < 0 ? value : (double)p.level;
    }

    std::vector<Place> at_; // by feature
    std::vector<double> row_;
    int64_t plain_, inside_ = 0;
};

namespace {

constexpr double CONSTANT = 1e-13; // relative to the mean: a smaller deviation is rounding

// Calls body(features, label, weight) for each row, in order. The features are the plain ones, and
// then for each table the number of the level.
template <class T, class Body>
void each_row_of(const tusk_group &group, const Shape &shape, int64_t cancel_mark, Body &&body) {
    int64_t left = group.n_rows; // a shared list may have further rows
    Levels levels(shape, tusk_is_sparse(group.kind));
    for (const tusk_segment *s = group.head; left && !cancelled(cancel_mark); s = s->next) {
        int64_t n = std::min<int64_t>(s->n_rows, left);
        const double *y = tusk_labels(s), *w = tusk_extra(s, tusk_shape_of(&group), TUSK_WEIGHTS);
        auto weight = [w](int64_t i) { return w ? w[i] : 1; };
        if (tusk_is_sparse(group.kind)) {
            for (int64_t i = 0; i < n; i++)
                body(levels.of_sparse<T>(s, i), y[i], weight(i));
        } else {
            const T *x = (const T *)tusk_dense_values(s);
            for (int64_t i = 0; i < n; i++, x += group.dim)
                shape.tables.empty() ? body(x, y[i], weight(i))
                                     : body(levels.of_dense(x), y[i], weight(i));
        }
        left -= n;
    }
}

template <class Body>
void each_row(const tusk_group &group, const Shape &shape, int64_t cancel_mark, Body &&body) {
    if (tusk_value_size(group.kind) == sizeof(float))
        each_row_of<float>(group, shape, cancel_mark, body);
    else
        each_row_of<double>(group, shape, cancel_mark, body);
}

// The inverse of a deviation, 0 for a constant feature.
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

double total_weight(const tusk_group &group) {
    if (!(group.extras & TUSK_WEIGHTS))
        return (double)group.n_rows;
    double total = 0;
    int64_t left = group.n_rows;
    for (const tusk_segment *s = group.head; left; s = s->next) {
        const double *w = tusk_extra(s, tusk_shape_of(&group), TUSK_WEIGHTS);
        int64_t n = std::min<int64_t>(s->n_rows, left);
        total = std::accumulate(w, w + n, total);
        left -= n;
    }
    return total;
}

Units units_of(const tusk_group &group, const Shape &shape, const tk_net &net,
               int64_t cancel_mark) {
    int64_t d = shape.plain;
    Units units{std::vector<double>(d, 0), std::vector<double>(d, 1)};
    double of_label = 0, whole = total_weight(group);
    units.weight = (double)group.n_rows / whole;
    if (!net.standardise)
        return units;
    std::vector<double> square(d, 0);
    each_row(group, shape, cancel_mark, [&](const auto *x, double y, double weight) {
        double share = weight / whole;
        for (int64_t k = 0; k < d; k++)
            units.shift[k] += x[k] * share;
        units.label_shift += y * share;
    });
    each_row(group, shape, cancel_mark, [&](const auto *x, double y, double weight) {
        double share = weight / whole;
        for (int64_t k = 0; k < d; k++)
            square[k] += (x[k] - units.shift[k]) * (x[k] - units.shift[k]) * share;
        of_label += (y - units.label_shift) * (y - units.label_shift) * share;
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

Units units_of(const tk_net_visit &visit, int64_t d) {
    const double *shift = visit.units, *scale = shift + d, *label = scale + d;
    Units units{std::vector<double>(shift, scale), std::vector<double>(scale, label)};
    units.label_shift = label[0];
    units.label_scale = label[1];
    return units;
}

float Labels::of(double y, const Units &units) const {
    if (net->loss == TK_NET_SQUARED)
        return units.label_scale ? (float)((y - units.label_shift) / units.label_scale) : 0;
    if (net->loss == TK_NET_LOGISTIC)
        return y == positive;
    return (float)(std::lower_bound(classes, classes + net->outputs, y) - classes);
}

void copy_rows(const tusk_group &group, const Shape &shape, const Units &units,
               const Labels &labels, RowsTo to, int64_t cancel_mark) {
    float *x = to.x, *y = to.y, *w = to.weight;
    int64_t d = shape.plain, numbers = d + (int64_t)shape.tables.size(), width = shape.stride();
    each_row(group, shape, cancel_mark, [&](const auto *row, double label, double weight) {
        for (int64_t k = 0; k < d; k++)
            x[k] = (float)((row[k] - units.shift[k]) * units.scale[k]);
        for (int64_t k = d; k < numbers; k++)
            x[k] = (float)row[k];
        std::fill(x + numbers, x + width, 0.0f);
        x += width;
        *y++ = labels.of(label, units);
        if (w)
            *w++ = (float)(weight * units.weight);
    });
}

void write_weights(const Shape &shape, const Units &units, const float *flat, double *out) {
    for (const Table &table : shape.tables)
        out = std::copy_n(flat + table.vectors, table.items(), out);
    for (const Layer &layer : shape.layers) {
        bool first = &layer == &shape.layers.front(), last = &layer == &shape.layers.back();
        double factor = last ? units.label_scale : 1;
        for (int64_t j = 0; j < layer.out; j++) {
            double *bias = out++;
            *bias = factor * flat[layer.biases + j] + (last ? units.label_shift : 0);
            for (int64_t i = 0; i < layer.in; i++, out++) {
                bool scaled = first && i < shape.plain;
                *out = factor * flat[layer.place(i, j)] * (scaled ? units.scale[i] : 1);
                *bias -= scaled ? *out * units.shift[i] : 0;
            }
        }
    }
}

void read_weights(const Shape &shape, const Units &units, const double *given, float *flat) {
    std::fill_n(flat, shape.floats(), 0.0f);
    for (const Table &table : shape.tables)
        for (int64_t i = 0; i < table.items(); i++)
            flat[table.vectors + i] = (float)*given++;
    for (const Layer &layer : shape.layers) {
        bool first = &layer == &shape.layers.front(), last = &layer == &shape.layers.back();
        double factor = !last ? 1 : units.label_scale ? 1 / units.label_scale : 0;
        for (int64_t j = 0; j < layer.out; j++) {
            double bias = *given++ - (last ? units.label_shift : 0);
            for (int64_t i = 0; i < layer.in; i++, given++) {
                bool scaled = first && i < shape.plain;
                bias += scaled ? *given * units.shift[i] : 0;
                double scale = scaled ? units.scale[i] : 1;
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
        double reach = 1 / std::sqrt((double)layer.in);
        for (int64_t j = 0; j < layer.out; j++) {
            flat[layer.biases + j] = (float)(reach * random.symmetric());
            for (int64_t i = 0; i < layer.in; i++)
                flat[layer.place(i, j)] = (float)(reach * random.symmetric());
        }
    }
    for (const Table &table : shape.tables)
        for (int64_t i = 0; i < table.items(); i++)
            flat[table.vectors + i] = (float)random.symmetric();
}

void centre_vectors(const Shape &shape, const Rows &rows, float *flat) {
    std::vector<double> count;
    for (const Table &table : shape.tables) {
        int64_t column = shape.plain + (&table - shape.tables.data());
        size_t first = count.size();
        count.resize(first + (size_t)table.levels + 1);
        for (int64_t i = 0; i < rows.n; i++) {
            float level = rows.x[i * shape.stride() + column];
            count[first + (size_t)(level < 0 ? (float)table.levels : level)] +=
                rows.weight ? rows.weight[i] : 1;
        }
    }
    centre_vectors(shape, count.data(), rows.total, flat);
}

void centre_vectors(const Shape &shape, const double *count, double total, float *flat) {
    const Layer &layer = shape.layers[0];
    for (const Table &table : shape.tables) {
        if (count[table.levels] > 0)
            return; // would also move rows without a level
        std::vector<double> mean(table.dim, 0);
        float *vectors = flat + table.vectors;
        for (int64_t i = 0; i < table.items(); i++)
            mean[i % table.dim] += vectors[i] * count[i / table.dim] / total;
        for (int64_t i = 0; i < table.items(); i++)
            vectors[i] -= (float)mean[i % table.dim];
        for (int64_t j = 0; j < layer.out; j++)
            for (int64_t k = 0; k < table.dim; k++)
                flat[layer.biases + j] += (float)(flat[layer.place(table.input + k, j)] * mean[k]);
        count += table.levels + 1;
    }
}

int64_t counts_of(const Shape &shape) {
    int64_t n = 0;
    for (const Table &table : shape.tables)
        n += table.levels + 1;
    return n;
}

void moments_of(const tusk_group &group, const Shape &shape, int64_t cancel_mark, double *out) {
    const int64_t d = shape.plain;
    double *mean = out, *deviation = mean + d, *count = deviation + d;
    const double whole = total_weight(group);
    std::fill_n(out, 2 * d + counts_of(shape), 0.0);
    each_row(group, shape, cancel_mark, [&](const auto *x, double, double weight) {
        for (int64_t k = 0; k < d; k++)
            mean[k] += x[k] * (weight / whole);
        double *own = count;
        for (const Table &table : shape.tables) {
            double level = x[d + (&table - shape.tables.data())];
            own[level < 0 ? table.levels : (int64_t)level] += weight;
            own += table.levels + 1;
        }
    });
    each_row(group, shape, cancel_mark, [&](const auto *x, double, double weight) {
        for (int64_t k = 0; k < d; k++)
            deviation[k] += (x[k] - mean[k]) * (x[k] - mean[k]) * (weight / whole);
    });
    for (int64_t k = 0; k < d; k++)
        deviation[k] = std::sqrt(deviation[k]);
}

} // namespace tusk
