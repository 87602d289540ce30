// The optimum from the weights of a penalty before, by systems of equations for the weights that
// are not 0, as a homotopy has them (M. Osborne, B. Presnell and B. Turlach, A new approach to
// variable selection in least squares problems, IMA Journal of Numerical Analysis 20, 2000).
#pragma once

#include <cstdint>
#include <vector>

#include "../penalty.hpp"

namespace tusk {

// Minimises 1/2 w.P w - c.w + penalty(w) for the products P (d, d) of columns with each other and
// c (d,) with the labels. One weight enters or leaves at a time.
class ActiveSet {
public:
    // free: (d,) not 0 for weights without a penalty.
    ActiveSet(const std::vector<double> &product, const std::vector<double> &with_y,
              const std::vector<uint8_t> &free);

    // Goes on from the weights w. u: c - P w, of the weights that are found. Returns the number
    // of systems that were solved. It gives up where columns are collinear, or after `most`
    // systems: the weights are no optimum then.
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
    int64_t rows_ = 0;                 // so many are those of the members,
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

} // namespace tusk
