// The objective of one group in the coordinates of Newton's method: weights v of the shifted and
// scaled features z_i = (x_i - shift_i) scale_i, with the intercept last.
//
//     objective(v) = (sum of losses) / n + l2 / 2 * |w|^2,   w_i = v_i scale_i
//
// The violation of optimality is the largest slope by v beyond rounding, in the caller's unit.
#ifndef TUSK_NEWTON_COORDINATES_HPP
#define TUSK_NEWTON_COORDINATES_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tusk {

constexpr double ROUNDING = 4e-15;     // error of a zero from summing terms of size 1
constexpr double MOST_ROUNDING = 1e-6; // relative to a slope's unit, as in
                                       // learners/linear/problem.py

// rounding: possible error of margins.
struct Measured {
    double objective, violation, rounding;
};

struct Coordinates {
    int64_t d;
    const double *shift, *scale; // (d,)
    double l2;
    bool fit_intercept;
    double label_size;  // of residuals at v = 0
    double unit;        // of violations
    double weight_unit; // of margins
    bool of_label;      // whether that is the label's

    // Possible change of a mean loss by rounding if it is not a sum of squares: slopes are about
    // the unit.
    double change(double rounding) const {
        return rounding * (of_label ? unit : std::max(unit, 1.0));
    }

    // w: the weights of x, (d + 1,).
    void place(const double *v, double *w) const {
        double moved = 0;
        for (int64_t i = 0; i < d; i++) {
            w[i] = v[i] * scale[i];
            moved += w[i] * shift[i];
        }
        w[d] = v[d] - moved;
    }

    // Evaluates the sums of tk_gradient at w, which place() computed from v; gradient: out, by v,
    // (d + 1,). The violation is NaN if a number is not finite.
    Measured measure(const double *v, const double *w, const double *sums,
                     double *gradient) const {
        const double n = sums[1], *slopes = sums + 2, by_intercept = slopes[d] / n;
        double squares = 0, size = std::fabs(v[d]) + label_size, worst = 0;
        bool finite = true;
        gradient[d] = fit_intercept ? by_intercept : 0;
        for (int64_t i = 0; i < d; i++) {
            gradient[i] =
                (slopes[i] / n - shift[i] * by_intercept) * scale[i] + l2 * scale[i] * w[i];
            squares += w[i] * w[i];
            size += std::fabs(v[i]) + std::fabs(w[i] * shift[i]);
        }
        for (int64_t i = 0; i <= d; i++) {
            worst = std::max(worst, std::fabs(gradient[i]));
            finite = finite && std::isfinite(gradient[i]);
        }
        const double objective = sums[0] / n + 0.5 * l2 * squares, rounding = ROUNDING * size;
        const double lost = std::min(rounding / weight_unit, MOST_ROUNDING);
        const double violation = finite && std::isfinite(objective)
                                     ? std::max(worst / unit - lost, 0.0)
                                     : std::numeric_limits<double>::quiet_NaN();
        return {objective, violation, rounding};
    }
};

} // namespace tusk
#endif
