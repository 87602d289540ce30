// Dense rows, read from the packer's memory.
#pragma once

#include "rows.hpp"

namespace tusk {

constexpr int64_t TILE = 1024; // features that a thread sums at a time: their sums stay in L1

template <class T> class DenseFeatures : public Features {
public:
    DenseFeatures(std::vector<const T *> rows, int64_t width, int threads)
        : row_(std::move(rows)), threads_(threads) {
        n = (int64_t)row_.size();
        d = width;
    }

    double origin(int64_t j) const override { return n ? (double)row_[0][j] : 0; }

    void correlate(const double *t, double *out) const override {
        double total = 0;
        for (int64_t i = 0; i < n; i++)
            total += t[i];
        tiles([&](int64_t from, int64_t to) {
            std::fill(out + from, out + to, 0.0);
            int64_t i = 0;
            for (; i + 4 <= n; i += 4) {
                const T *x0 = row_[i], *x1 = row_[i + 1], *x2 = row_[i + 2], *x3 = row_[i + 3];
                double t0 = t[i], t1 = t[i + 1], t2 = t[i + 2], t3 = t[i + 3];
                for (int64_t j = from; j < to; j++)
                    out[j] += (t0 * x0[j] + t1 * x1[j]) + (t2 * x2[j] + t3 * x3[j]);
            }
            for (; i < n; i++)
                for (int64_t j = from; j < to; j++)
                    out[j] += t[i] * row_[i][j];
            for (int64_t j = from; j < to; j++)
                out[j] -= total * row_[0][j];
        });
    }

    void correlate(const double *t, const std::vector<int32_t> &which,
                   double *out) const override {
        constexpr int64_t SHARE = 256;
        int64_t k = (int64_t)which.size();
        parallel_for((k + SHARE - 1) / SHARE, threads_, [&](int64_t task) {
            int64_t from = task * SHARE, to = std::min(from + SHARE, k);
            std::fill(out + from, out + to, 0.0);
            for (int64_t i = 0; i < n; i++)
                for (int64_t c = from; c < to; c++)
                    out[c] += t[i] * ((double)row_[i][which[c]] - (double)row_[0][which[c]]);
        });
    }

    void moments(const double *a, double *mean, double *squares) const override {
        tiles([&](int64_t from, int64_t to) {
            std::fill(mean + from, mean + to, 0.0);
            std::fill(squares + from, squares + to, 0.0);
            for (int64_t i = 0; i < n; i++) {
                const T *x = row_[i], *x0 = row_[0];
                for (int64_t j = from; j < to; j++) {
                    double v = (double)x[j] - (double)x0[j];
                    mean[j] += a[i] * v;
                    squares[j] += a[i] * v * v;
                }
            }
        });
    }

    void copy(const std::vector<int32_t> &which, double *const *to) const override {
        constexpr int64_t SHARE = 64; // rows
        parallel_for((n + SHARE - 1) / SHARE, threads_, [&](int64_t task) {
            int64_t last = std::min(n, (task + 1) * SHARE);
            for (int64_t i = task * SHARE; i < last; i++)
                for (size_t c = 0; c < which.size(); c++)
                    to[c][i] = (double)row_[i][which[c]] - (double)row_[0][which[c]];
        });
    }

    void copy_rows(int64_t from, int64_t rows, double *to) const override {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < d; j++)
                to[j * rows + i] = (double)row_[from + i][j] - (double)row_[0][j];
    }

    void margins(const std::vector<int32_t> &which, const std::vector<double> &w,
                 double *out) const override {
        for (int64_t i = 0; i < n; i++) {
            double m = 0;
            for (size_t c = 0; c < which.size(); c++)
                m += w[c] * row_[i][which[c]];
            out[i] = m;
        }
    }

private:
    std::vector<const T *> row_;
    int threads_;

    template <class Body> void tiles(Body body) const {
        parallel_for((d + TILE - 1) / TILE, threads_,
                     [&](int64_t task) { body(task * TILE, std::min(d, (task + 1) * TILE)); });
    }
};

} // namespace tusk
