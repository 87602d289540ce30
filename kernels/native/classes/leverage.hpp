// Scores of several classes by their leverage: the derivatives r of a row by its margins become
// (1 - W M)^(-power / 2) r, with the curvature W = diag(p) - p p' by the margins and M_kl =
// z' A_kl z, A the inverse curvature of all weights. W M is the row's block of the hat matrix of
// the iteratively reweighted least squares (Fahrmeir and Tutz, Multivariate Statistical Modelling
// Based on Generalized Linear Models, 2001, section 4.2). Power 1: Kauermann and Carroll, A note
// on the efficiency of sandwich covariance matrix estimation, 2001. Power 2: Mancl and DeRouen, A
// covariance estimator for GEE with improved small-sample properties, 2001. With two classes these
// are HC2 and HC3 of MacKinnon and White.
//
// W = L L' with L = D (1 - s s'), s = sqrt(p) and D = diag(s). With C = L' M L, which is symmetric
// with eigenvalues from 0 to 1, f(W M) = f(0) + L h(C) L' M where h(t) = (f(t) - f(0)) / t. So
// nothing is divided by a small probability, and the class of reference makes no difference.
#pragma once

#include <cmath>
#include <cstdint>

#include "softmax.hpp"

namespace tusk {

// Eigenvalues of small symmetric matrices by cyclic rotations. Golub and Van Loan, Matrix
// Computations, fourth edition, algorithm 8.5.3.

constexpr int MOST_SWEEPS = 30;
constexpr double NOTHING = 1e-15; // limit off the diagonal, for matrices with eigenvalues of at
                                  // most 1

// One rotation of rows and columns i < j of m, and of rows i and j of vectors.
inline void rotate(double *m, double *vectors, int64_t n, int64_t i, int64_t j) {
    double apart = (m[j * n + j] - m[i * n + i]) / (2 * m[i * n + j]);
    double t = std::copysign(1.0, apart) / (std::fabs(apart) + std::hypot(1.0, apart));
    double c = 1 / std::sqrt(1 + t * t), s = t * c;
    auto turn = [c, s](double &a, double &b) {
        double first = a;
        a = c * first - s * b;
        b = s * first + c * b;
    };
    for (int64_t k = 0; k < n; k++)
        turn(m[k * n + i], m[k * n + j]);
    for (int64_t k = 0; k < n; k++)
        turn(m[i * n + k], m[j * n + k]);
    for (int64_t k = 0; k < n; k++)
        turn(vectors[i * n + k], vectors[j * n + k]);
}

// m (n, n), symmetric, gets its eigenvalues on the diagonal; row e of vectors (n, n) is the
// eigenvector of the value e.
inline void eigen(double *m, double *vectors, int64_t n) {
    for (int64_t k = 0; k < n * n; k++)
        vectors[k] = k % (n + 1) == 0;
    for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
        bool moved = false;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i + 1; j < n; j++)
                if (std::fabs(m[i * n + j]) > NOTHING) {
                    rotate(m, vectors, n, i, j);
                    moved = true;
                }
        if (!moved)
            return;
    }
}

class Leverage {
public:
    Leverage(int64_t n_classes, int64_t p, const tk_robust *how, int64_t group)
        : k_(n_classes), p_(p), power_(how->power), squared_(how->squared), s_(k_), m_(k_ * k_),
          vectors_(k_ * k_), r_(k_), a_(k_), b_(k_) {
        int64_t w = k_ * p_;
        inverse_ = how->inverse ? how->inverse + group * (w * (w + 1) / 2) : nullptr;
    }

    // Divides the derivatives of row i, of class index `own`, in place; z: (p,).
    void divide(ClassRows &rows, int i, int64_t own, double weight, const double *z) {
        for (int64_t k = 0; k < k_; k++) {
            r_[k] = rows.of(k)[i] / weight;
            s_[k] = std::sqrt(std::max(r_[k] + (k == own), 0.0));
        }
        set_quadratic_forms(z);
        if (squared_)
            for (double &form : m_)
                form *= std::sqrt(weight);
        for (int64_t k = 0; k < k_; k++) {
            a_[k] = 0;
            for (int64_t l = 0; l < k_; l++)
                a_[k] += m_[k * k_ + l] * r_[l];
            a_[k] *= s_[k];
        }
        center(a_.data());
        set_symmetric();
        eigen(m_.data(), vectors_.data(), k_);
        apply();
        center(b_.data());
        for (int64_t k = 0; k < k_; k++)
            rows.of(k)[i] += weight * s_[k] * b_[k];
    }

private:
    static constexpr double LEAST = 1e-12; // least 1 - eigenvalue

    // M, from the lower triangle of A.
    void set_quadratic_forms(const double *z) {
        for (int64_t k = 0; k < k_; k++)
            for (int64_t l = 0; l <= k; l++) {
                double total = 0;
                for (int64_t j = 0; j < p_; j++) {
                    int64_t row = k * p_ + j;
                    const double *a = inverse_ + row * (row + 1) / 2 + l * p_;
                    double sum = 0;
                    for (int64_t t = 0; t < (k == l ? j : p_); t++)
                        sum += a[t] * z[t];
                    total += z[j] * (k == l ? 2 * sum + a[j] * z[j] : sum);
                }
                m_[k * k_ + l] = m_[l * k_ + k] = total;
            }
    }

    // (1 - s s') v
    void center(double *v) const {
        double along = 0;
        for (int64_t k = 0; k < k_; k++)
            along += s_[k] * v[k];
        for (int64_t k = 0; k < k_; k++)
            v[k] -= along * s_[k];
    }

    // M becomes C = (1 - s s') D M D (1 - s s').
    void set_symmetric() {
        for (int64_t k = 0; k < k_; k++)
            for (int64_t l = 0; l < k_; l++)
                m_[k * k_ + l] *= s_[k] * s_[l];
        for (int64_t k = 0; k < k_; k++)
            center(m_.data() + k * k_);
        for (int64_t l = 0; l < k_; l++) {
            double along = 0;
            for (int64_t k = 0; k < k_; k++)
                along += s_[k] * m_[k * k_ + l];
            for (int64_t k = 0; k < k_; k++)
                m_[k * k_ + l] -= along * s_[k];
        }
    }

    // b = h(C) a, with the eigenvalues on the diagonal of m_.
    void apply() {
        std::fill(b_.begin(), b_.end(), 0.0);
        for (int64_t e = 0; e < k_; e++) {
            const double *v = vectors_.data() + e * k_;
            double left = std::max(1 - m_[e * k_ + e], LEAST), root = std::sqrt(left), along = 0;
            for (int64_t k = 0; k < k_; k++)
                along += v[k] * a_[k];
            along *= power_ == 1 ? 1 / (root * (1 + root)) : 1 / left;
            for (int64_t k = 0; k < k_; k++)
                b_[k] += along * v[k];
        }
    }

    int64_t k_, p_;
    int power_;
    bool squared_;
    const double *inverse_;
    std::vector<double> s_, m_, vectors_, r_, a_, b_;
};

} // namespace tusk
