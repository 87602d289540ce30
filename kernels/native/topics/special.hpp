// Functions of Dirichlet distributions, for arguments above 0.
#pragma once

#include <cmath>

#include "../shared/simd.hpp"

namespace tusk::topics {

// log Gamma(x) for x > 0, by Stirling's series after a recurrence.
inline double log_gamma(double x) {
    double shift = 1;
    while (x < 8) {
        shift *= x;
        x += 1;
    }
    double inverse = 1 / x, square = inverse * inverse;
    double series = 1.0 / 12 - square * (1.0 / 360 - square * (1.0 / 1260 - square / 1680));
    return (x - 0.5) * std::log(x) - x + 0.91893853320467274178 + inverse * series -
           std::log(shift);
}

// The derivative of log Gamma, by the asymptotic series after its recurrence.
inline double digamma(double x) {
    double below = 0;
    for (; x < 8; x += 1)
        below += 1 / x;
    double square = 1 / (x * x);
    double series =
        square * (1.0 / 12 - square * (1.0 / 120 - square * (1.0 / 252 - square / 240)));
    return std::log(x) - 0.5 / x - series - below;
}

// exp(digamma(x)), with a relative error of 1e-11: the series of exp(digamma(y + 1/2)) at y = x +
// 7.5, minus the sum of 1 / (x + i) for i < 8, which is the logarithmic derivative of a product.
template <class V> inline V exp_digamma(V x) {
    V product = x, slope = V{} + 1.0;
    for (int i = 1; i < 8; i++) {
        V next = x + (double)i;
        slope = slope * next + product;
        product *= next;
    }
    V y = x + 7.5, inverse = 1.0 / y, square = inverse * inverse;
    V series = 10313.0 / 2903040 - square * (5509121.0 / 1393459200);
    series = 1.0 / 24 - square * (37.0 / 5760 - square * series);
    return (y + inverse * series) * exp_negative<V>(-slope / product);
}

} // namespace tusk::topics
