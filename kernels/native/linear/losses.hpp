// Losses of one example as a function of its margin m = w.x + b and its label y.
//
// Each returns the loss, its derivative d = dl/dm and its curvature h = d2l/dm2 for a vector of
// examples. All algorithms use this code.
#pragma once

#include "../shared/simd.hpp"

namespace tusk {

enum class LossKind : int32_t { squared = 0, logistic = 1, hinge = 2 };

template <class V> struct LossValues {
    V loss, derivative, curvature;
};

// 1/2 (m - y)^2
struct Squared {
    static constexpr bool classifies = false;
    explicit Squared(double) {}
    template <class V> LossValues<V> operator()(V m, V y) const {
        V r = m - y;
        return {0.5 * r * r, r, V{} + 1.0};
    }
};

// log(1 + exp(-y m)), y in {-1, +1}. Computed from exp(-|m|) <= 1, to avoid overflow and
// cancellation.
struct Logistic {
    static constexpr bool classifies = true;
    explicit Logistic(double) {}
    template <class V> LossValues<V> operator()(V m, V y) const {
        V z = y * m;
        V e = exp_negative(-vabs(z));
        V inverse = 1.0 / (1.0 + e);
        V wrong = select<V>(z >= 0.0, e * inverse, inverse); // 1 - P(y)
        return {vmax(-z, V{}) + log1p_unit(e), -y * wrong, e * inverse * inverse};
    }
};

// max(0, z) with z = 1 - y m. Smoothing g > 0 replaces the corner by a parabola: z^2 / 2g for
// 0 <= z <= g, and z - g/2 for larger z. This is below the hinge by at most g/2 (Nesterov, Smooth
// minimization of non-smooth functions, 2005).
struct Hinge {
    static constexpr bool classifies = true;
    double g;
    explicit Hinge(double smoothing) : g(smoothing) {}
    template <class V> LossValues<V> operator()(V m, V y) const {
        V z = 1.0 - y * m;
        V positive = vmax(z, V{});
        if (g == 0.0)
            return {positive, select<V>(z > 0.0, -y, V{}), V{}};
        Mask<V> corner = positive < g;
        V curved = positive * (1.0 / g);
        return {select<V>(corner, 0.5 * positive * curved, positive - 0.5 * g),
                -y * select<V>(corner, curved, V{} + 1.0),
                select<V>(corner & (z > 0.0), V{} + 1.0 / g, V{})};
    }
};

} // namespace tusk
