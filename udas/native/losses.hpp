// Losses of one example as a function of its margin m = w.x + b and its label y; see design.md,
// section 3.
//
// Each gives the loss, its derivative d = dl/dm and its curvature h = d2l/dm2 for eight examples.
// The same code serves every algorithm.
#pragma once

#include "simd.hpp"

namespace tusk {

enum class LossKind : int32_t { squared = 0, logistic = 1, hinge = 2 };

struct LossValues {
    v8d loss, derivative, curvature;
};

// 1/2 (m - y)^2
struct Squared {
    static constexpr bool classifies = false;
    explicit Squared(double) {}
    LossValues operator()(v8d m, v8d y) const {
        v8d r = m - y;
        return {0.5 * r * r, r, splat(1.0)};
    }
};

// log(1 + exp(-y m)), y in {-1, +1}, by exp(-|m|) <= 1 so that nothing overflows and nothing
// cancels.
struct Logistic {
    static constexpr bool classifies = true;
    explicit Logistic(double) {}
    LossValues operator()(v8d m, v8d y) const {
        v8d z = y * m;
        v8d e = exp_negative(-vabs(z));
        v8d inverse = 1.0 / (1.0 + e);
        v8d wrong = select(z >= 0.0, e * inverse, inverse); // 1 - P(y)
        return {vmax(-z, splat(0.0)) + log1p_unit(e), -y * wrong, e * inverse * inverse};
    }
};

// max(0, z) with z = 1 - y m. With smoothing g > 0 the corner is a parabola, z^2 / 2g for 0 <= z
// <= g and z - g/2 beyond, which is below the hinge by at most g/2 (Nesterov, Smooth minimization
// of non-smooth functions, 2005).
struct Hinge {
    static constexpr bool classifies = true;
    double g;
    explicit Hinge(double smoothing) : g(smoothing) {}
    LossValues operator()(v8d m, v8d y) const {
        v8d z = 1.0 - y * m;
        v8d positive = vmax(z, splat(0.0));
        if (g == 0.0)
            return {positive, select(z > 0.0, -y, splat(0.0)), splat(0.0)};
        v8i corner = positive < g;
        v8d curved = positive * (1.0 / g);
        return {select(corner, 0.5 * positive * curved, positive - 0.5 * g),
                -y * select(corner, curved, splat(1.0)),
                select(corner & (z > 0.0), splat(1.0 / g), splat(0.0))};
    }
};

} // namespace tusk
