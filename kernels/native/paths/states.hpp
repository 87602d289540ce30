// State of coordinate descent on a least-squares problem min 1/2 ||Y - A w||^2: each kind has the
// coordinates' curvatures, their gradients A_j.(Y - A w), and numbers that are linear in w.
#pragma once

#include <vector>

#include "vectors.hpp"

namespace tusk {

// Dense columns of n numbers, and the residuals.
struct Residuals {
    std::vector<const double *> column;
    std::vector<double> curvature, numbers; // numbers: Y - A w
    int64_t n;

    double gradient(size_t j) const { return dot(column[j], numbers.data(), n); }
    void move(size_t j, double by) { add(numbers.data(), -by, column[j], n); }
    double squares() const { return dot(numbers.data(), numbers.data(), n); }
};

// Sparse columns of scaled features whose weighted mean is subtracted without being stored.
// numbers: the residuals without a constant, which is the last one.
struct SparseResiduals {
    struct Column {
        const int32_t *row;
        const double *value;
        int64_t n;
        double scale, mean; // of the weighted values, before scaling; 0 without an intercept
    };
    std::vector<Column> column;
    std::vector<double> curvature, numbers;
    const double *weight; // (n,), of the rows
    double total;         // of the weights
    int64_t n;

    double gradient(size_t j) const {
        const Column &c = column[j];
        double s = 0;
        for (int64_t i = 0; i < c.n; i++)
            s += weight[c.row[i]] * c.value[i] * numbers[c.row[i]];
        return c.scale * (s + numbers[n] * c.mean * total);
    }
    void move(size_t j, double by) {
        const Column &c = column[j];
        by *= c.scale;
        for (int64_t i = 0; i < c.n; i++)
            numbers[c.row[i]] -= by * c.value[i];
        numbers[n] += by * c.mean;
    }
    double squares() const {
        double s = 0;
        for (int64_t i = 0; i < n; i++)
            s += weight[i] * (numbers[i] + numbers[n]) * (numbers[i] + numbers[n]);
        return s;
    }
};

// The products of few columns with each other (k, k), and the gradients of all of them.
struct Covariances {
    const double *product; // (k, k)
    std::vector<double> curvature, numbers, with_y;
    double y_squares;
    const std::vector<double> *w;
    int64_t k;

    double gradient(size_t j) const { return numbers[j]; }
    void move(size_t j, double by) { add(numbers.data(), -by, product + j * k, k); }
    double squares() const {
        double fitted = dot(w->data(), with_y.data(), k) + dot(w->data(), numbers.data(), k);
        return std::max(y_squares - fitted, 0.0); // rounding may leave less
    }
};

} // namespace tusk
