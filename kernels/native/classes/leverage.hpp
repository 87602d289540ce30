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

#include "jacobi.hpp"
#include "softmax.hpp"

namespace tusk {

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
