// The logistic loss of a margin, its derivatives, and the dual.
#pragma once

#include <cmath>

namespace tusk {

constexpr double LEAST_CURVATURE = 1e-6; // of a row's loss
constexpr double DUAL_ROUNDING = 1e-12;  // by which a dual point may leave [0, 1]

inline double log1p_exp(double m) {
    return m > 0 ? m + std::log1p(std::exp(-m)) : std::log1p(std::exp(m));
}
inline double probability(double m) {
    double e = std::exp(-std::abs(m));
    return m >= 0 ? 1 / (1 + e) : e / (1 + e);
}
inline double entropy(double q) {
    return q > 0 && q < 1 ? -q * std::log(q) - (1 - q) * std::log1p(-q) : 0;
}

} // namespace tusk
