// The fit of few dense features along falling penalties, from sums over rows.
#pragma once

#include <vector>

#include "../api.h"
#include "../descent.hpp"
#include "../fit.hpp"
#include "../states.hpp"
#include "active.hpp"
#include "sums.hpp"

namespace tusk {

// Like `Fit` in fit.hpp, with weights of z = scale (x - centre).
class ProductFit {
public:
    // Fits all rows except those of a part, or all with -1.
    ProductFit(const Sums &sums, int64_t without, const Rules &rules);

    double largest_lambda() const { return largest_ / rules_.alpha[2]; }
    void solve(double lambda, tk_path_point &point);
    Weights weights() const;
    // The mean squared error of a part's rows.
    double held_out(int64_t part) const;
    // Whether this class applies to rules and rows.
    static bool fits(const Rules &rules, const tusk_group &group);

private:
    const Sums &sums_;
    const Rules &rules_;
    int64_t d_;
    bool out_of_range_ = false;
    std::vector<double> centre_, scale_, product_, with_y_; // (d,), (d,), (d, d), (d,)
    double mean_ = 0, labels_ = 0;                          // mean of the labels; their variance
    std::vector<double> w_;
    std::vector<uint8_t> free_; // (d,)
    Covariances covariances_;
    ActiveSet active_;
    Penalty penalty_{};
    double null_ = 0, largest_ = 0, objective_ = 0, gap_ = 0;
    int64_t epochs_ = 0;

    void measure(const std::vector<double> &total, bool all);
    void measure_products(const std::vector<double> &total);
    void fit(const Penalty &penalty, double tolerance);
    double intercept() const;
};

} // namespace tusk
