// Fits of few features from their products with each other and with the labels: rows are read for
// these alone (Friedman, Hastie and Tibshirani, 2010, section 2.2, covariance updates).
#include <cmath>
#include <numeric>

#include "fit.hpp"

namespace tusk {

namespace {
constexpr int64_t MOST_FEATURES = 256;
}

// Whether all that a fit needs of its rows are products of columns.
bool Fit::by_products() const {
    return squared() && !rules_.free && !x_.sparse() && d_ <= MOST_FEATURES && n_ >= d_;
}

// Sums over rows, at the weights 0.
void Fit::multiply() {
    std::vector<int32_t> every(d_);
    std::iota(every.begin(), every.end(), 0);
    work_.clear();
    add_to_work(every);
    product_.resize(d_ * d_);
    for (int64_t j = 0; j < d_; j++)
        for (int64_t k = 0; k <= j; k++)
            product_[j * d_ + k] = product_[k * d_ + j] =
                norm_[j] > 0 && norm_[k] > 0 ? dot(cache_[j].data(), cache_[k].data(), n_) : 0;
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
    cache_.clear();
    cached_.clear();
    std::fill(slot_.begin(), slot_.end(), -1);
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
