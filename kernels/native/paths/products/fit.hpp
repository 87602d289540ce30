// The fit of few dense features along falling penalties, from sums over rows.
#pragma once

#include <cstdint>
#include <vector>

#include "../api.h"
#include "../descent.hpp"
#include "../fit.hpp"
#include "../penalty.hpp"
#include "../states.hpp"
#include "sums.hpp"

namespace tusk {

// The optimum from the weights of the previous penalty, by systems of equations for the nonzero
// weights, as in a homotopy (M. Osborne, B. Presnell and B. Turlach, A new approach to variable
// selection in least squares problems, IMA Journal of Numerical Analysis 20, 2000).

// Minimises 1/2 w.P w - c.w + penalty(w) for the products P (d, d) of columns with each other and
// c (d,) with the labels. One weight enters or leaves at a time.
class ActiveSet {
public:
    // free: (d,) nonzero for weights without a penalty.
    ActiveSet(const std::vector<double> &product, const std::vector<double> &with_y,
              const std::vector<uint8_t> &free);

    // Continues from the weights w. u: c - P w, for the resulting weights. Returns the number of
    // systems solved. It gives up if columns are collinear, or after `most` systems: the weights
    // are then not optimal.
    int64_t run(const Penalty &penalty, int64_t most, std::vector<double> &w,
                std::vector<double> &u);

private:
    const std::vector<double> &product_, &with_y_;
    const std::vector<uint8_t> &free_;
    int64_t d_;
    double largest_ = 0;               // of |c|
    std::vector<int32_t> member_;      // in the order of the factor's rows
    std::vector<double> sign_, found_; // by member: of the penalty, 0 without one; the solution
    std::vector<double> factor_;       // (d, d) rows of Cholesky's factor, of which
    int64_t rows_ = 0;                 // this many belong to the members,
    double l2_ = -1;                   // with this on the diagonal

    double &factor(int64_t row, int64_t column) { return factor_[row * d_ + column]; }
    void begin(const std::vector<double> &w);
    bool factorise(double l2);
    void solve(const Penalty &penalty);
    bool move(std::vector<double> &w);
    bool enter(const Penalty &penalty, const std::vector<double> &w, const std::vector<double> &u);
    void leave(int64_t place);
    void correlate(const std::vector<double> &w, std::vector<double> &u) const;
};

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
