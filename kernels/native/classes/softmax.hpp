// Blocks of rows with a margin for each of several classes, and the derivatives of their losses.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "../linear/api.h"
#include "../linear/dense.hpp"
#include "../linear/sparse.hpp"

namespace tusk {

// The classes of a group: rising labels, and the weights of their rows.
struct ClassSet {
    int64_t n;
    const double *label, *weight;
    ClassSet(const tk_softmax *s, int64_t g)
        : n(s->n_classes), label(s->label + g * s->n_classes),
          weight(s->weight ? s->weight + g * s->n_classes : nullptr) {}
    int64_t place(double y) const { return std::lower_bound(label, label + n, y) - label; }
    // Weight of row i, of class index `place`.
    double weight_of(int64_t place, const Targets &rows, int i) const {
        return (weight ? weight[place] : 1) * (rows.weight ? rows.weight[i] : 1);
    }
};

// Margins by class, one row of BLOCK_ROWS for each, which become derivatives.
struct ClassRows {
    std::vector<double> m;
    explicit ClassRows(int64_t classes) : m(classes * BLOCK_ROWS) {}
    double *of(int64_t k) { return m.data() + k * BLOCK_ROWS; }

    // Returns the sum of the losses of n rows. m becomes the probabilities, minus 1 at the row's
    // class, times the row's weight, and 0 from row n on.
    double settle(const ClassSet &classes, const Targets &y, int n) {
        double own[BLOCK_ROWS], weight[BLOCK_ROWS], total = 0;
        int64_t place[BLOCK_ROWS];
        for (int i = 0; i < n; i++) {
            place[i] = classes.place(y.y[i]);
            own[i] = of(place[i])[i];
            weight[i] = classes.weight_of(place[i], y, i);
        }
        to_probabilities(classes.n, n, own, weight, &total);
        for (int i = 0; i < n; i++)
            of(place[i])[i] -= weight[i];
        for (int64_t k = 0; k < classes.n && n < BLOCK_ROWS; k++)
            std::fill(of(k) + n, of(k) + BLOCK_ROWS, 0.0);
        return total;
    }

private:
    // Turns m into probabilities times the weights of the rows; adds up the losses.
    void to_probabilities(int64_t k_all, int n, const double *own, const double *weight,
                          double *total) {
        alignas(64) double most[BLOCK_ROWS], sum[BLOCK_ROWS];
        int padded_n = (n + LANES - 1) / LANES * LANES;
        for (int i = 0; i < padded_n; i += LANES) {
            v8d top = load(of(0) + i), whole = splat(0.0);
            for (int64_t k = 1; k < k_all; k++)
                top = vmax(top, load(of(k) + i));
            for (int64_t k = 0; k < k_all; k++) {
                v8d e = exp_negative(load(of(k) + i) - top);
                whole += e;
                store(of(k) + i, e);
            }
            store(most + i, top);
            store(sum + i, whole);
        }
        for (int i = 0; i < n; i++) {
            *total += weight[i] * (std::log(sum[i]) + most[i] - own[i]);
            sum[i] = weight[i] / sum[i];
        }
        for (int i = n; i < padded_n; i++)
            sum[i] = 0;
        for (int64_t k = 0; k < k_all; k++)
            for (int i = 0; i < padded_n; i += LANES)
                store(of(k) + i, load(of(k) + i) * load(sum + i));
    }
};

// The weights of a group by class, padded for dense rows.
struct ClassWeights {
    int64_t d, wide;
    std::vector<double> all;
    ClassWeights(int64_t classes, int64_t features, const double *weights)
        : d(features), wide(padded(features)), all(classes * padded(features), 0.0) {
        for (int64_t k = 0; k < classes; k++)
            std::copy_n(weights + k * (d + 1), d, all.begin() + k * wide);
    }
    const double *of(int64_t k) const { return all.data() + k * wide; }
};

// Calls body(rows, labels, n, classes' margins) for each block of a chunk.
template <class T, class Body>
void each_block(const tk_pass *pass, const tk_softmax *s, const Chunk &c, const double *weights,
                ClassRows &rows_of, Body &&body) {
    int64_t d = pass->groups[0].dim, p = d + 1, n_classes = s->n_classes;
    const double *w = weights + c.group * n_classes * p;
    if (tusk_is_sparse(pass->groups[0].kind))
        return for_sparse_blocks<T>(c, BLOCK_ROWS, [&](const SparseBlock<T> &x) {
            if (cancelled(pass->cancel_mark))
                return;
            for (int64_t k = 0; k < n_classes; k++)
                margins(x, w + k * p, w[k * p + d], rows_of.of(k));
            body(x, x.y, x.n);
        });
    const ClassWeights wide(n_classes, d, w);
    for_dense_blocks<T>(c, d, BLOCK_ROWS, [&](const auto &x, const Targets &y, int n) {
        if (cancelled(pass->cancel_mark))
            return;
        for (int64_t k = 0; k < n_classes; k++)
            margins(x, n, d, wide.of(k), w[k * p + d], rows_of.of(k));
        body(x, y, n);
    });
}

} // namespace tusk
