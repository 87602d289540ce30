// Fits of few features from their products with each other and with the labels: rows are read for
// these alone (Friedman, Hastie and Tibshirani, 2010, section 2.2, covariance updates).
#include <cmath>
#include <numeric>

#include "fit.hpp"

namespace tusk {

namespace {
constexpr int64_t MOST_FEATURES = 256;
constexpr int64_t ROWS_AT_ONCE = 480; // whose columns stay in a core's cache; no power of two
} // namespace

// Whether all that a fit needs of its rows are products of columns.
bool Fit::by_products() const {
    return squared() && !rules_.free && blocks_.empty() && !x_.sparse() && d_ <= MOST_FEATURES &&
           n_ >= d_;
}

// Sums over rows, at the weights 0.
void Fit::multiply() {
    work_.resize(d_);
    std::iota(work_.begin(), work_.end(), 0);
    product_.assign(d_ * d_, 0.0);
    std::vector<double> z(d_ * ROWS_AT_ONCE);
    for (int64_t at = 0; at < n_ && !cancelled(rules_.limits.cancel_mark); at += ROWS_AT_ONCE)
        add_products(at, std::min(ROWS_AT_ONCE, n_ - at), z.data());
    for (int64_t j = 0; j < d_; j++)
        for (int64_t k = 0; k < j; k++)
            product_[k * d_ + j] = product_[j * d_ + k];
    with_y_ = u_;
    covariances_.product = product_.data();
    covariances_.with_y = with_y_;
    covariances_.w = &w_;
    covariances_.k = d_;
    covariances_.y_squares = 2 * null_;
    covariances_.numbers.resize(d_);
    covariances_.curvature.resize(d_);
    for (int64_t j = 0; j < d_; j++)
        covariances_.curvature[j] = norm_[j] * norm_[j];
}

// Adds what some rows have of the products, of the pairs j >= k. z: room for their columns.
void Fit::add_products(int64_t from, int64_t rows, double *z) {
    x_.copy_rows(from, rows, z);
    for (int64_t j = 0; j < d_; j++)
        for (int64_t i = 0; i < rows; i++)
            z[j * rows + i] = (z[j * rows + i] - centre_[j]) * scale_[j] * std::sqrt(a_[from + i]);
    for (int64_t j = 0; j < d_; j++)
        for (int64_t k = 0; k <= j && norm_[j] > 0; k++)
            if (norm_[k] > 0)
                product_[j * d_ + k] += dot(z + j * rows, z + k * rows, rows);
}

// Goes on to the penalty. Returns the intercept.
double Fit::solve_products(double tolerance) {
    covariances_.numbers = with_y_;
    for (int64_t j = 0; j < d_; j++)
        if (w_[j] != 0)
            covariances_.move(j, w_[j]);
    std::vector<uint8_t> free(d_);
    Descent<Covariances> descent(covariances_, w_, free, penalty_, rules_.limits);
    epochs_ = descent.run(tolerance, rules_.spec->max_epochs);
    GapSums sums = descent.gap_sums();
    gap_ = sums.gap(penalty_);
    objective_ = sums.primal();
    double b = 0;
    for (int64_t i = 0; i < n_; i++)
        b += a_[i] * sample_.y[i];
    return b;
}

} // namespace tusk
