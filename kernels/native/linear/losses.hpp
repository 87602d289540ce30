// Losses of one example as a function of its margin m = w.x + b and its label y.
//
// Each returns the loss, its derivative d = dl/dm and its curvature h = d2l/dm2 for a vector of
// examples. All algorithms use this code.
#pragma once

#include <cmath>

#include "../shared/simd.hpp"

namespace tusk {

enum class LossKind : int32_t {
    squared = 0,
    logistic = 1,
    hinge = 2,
    poisson = 3,
    gamma = 4,
    negative_binomial = 5,
    huber = 6,
    pinball = 7,
    squared_hinge = 8,
    expected_gamma = 9, // the losses above with the mean of the curvature over the labels
    expected_negative_binomial = 10,
    tweedie = 11,
    expected_tweedie = 12,
};

constexpr bool is_of_classes(LossKind kind) {
    return kind == LossKind::logistic || kind == LossKind::hinge ||
           kind == LossKind::squared_hinge;
}

// The smallest label that a loss is defined for, and whether it is itself allowed.
struct LeastLabel {
    double value;
    bool allowed;
};
constexpr LeastLabel least_label(LossKind kind) {
    constexpr double none = -__builtin_huge_val();
    switch (kind) {
    case LossKind::poisson:
    case LossKind::negative_binomial:
    case LossKind::tweedie:
        return {0, true};
    case LossKind::gamma:
        return {0, false};
    default:
        return {none, true};
    }
}

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

// max(0, z)^2 with z = 1 - y m.
struct SquaredHinge {
    static constexpr bool classifies = true;
    template <class V> LossValues<V> operator()(V m, V y) const {
        V z = 1.0 - y * m;
        V positive = vmax(z, V{});
        return {positive * positive, -2.0 * y * positive, select<V>(z > 0.0, V{} + 2.0, V{})};
    }
};

// exp(x), infinite beyond 708.
template <class V> inline V exp_of(V x) {
    V e = exp_negative(-vabs(x));
    return select<V>(x > 0.0, 1.0 / e, e);
}

// exp(m) - y m: the negative log-likelihood of counts with mean exp(m), without log y!. McCullagh
// and Nelder, Generalized linear models, 1989, 6.2.
struct Poisson {
    static constexpr bool classifies = false;
    template <class V> LossValues<V> operator()(V m, V y) const {
        V mean = exp_of(m);
        return {mean - y * m, mean - y, mean};
    }
};

// y exp(-m) + m: half the deviance of positive numbers with mean exp(m), without 1 + log y. The
// same, 8.3.
struct Gamma {
    static constexpr bool classifies = false;
    template <class V> LossValues<V> operator()(V m, V y) const {
        V share = y * exp_of(-m);
        return {share + m, 1.0 - share, share};
    }
};

struct ExpectedGamma {
    static constexpr bool classifies = false;
    template <class V> LossValues<V> operator()(V m, V y) const {
        LossValues<V> v = Gamma()(m, y);
        return {v.loss, v.derivative, V{} + 1.0};
    }
};

// (y + 1/a) log(1 + a exp(m)) - y m: counts with mean mu = exp(m) and variance mu + a mu^2, a > 0,
// without terms independent of m. Lawless, Negative binomial and mixed Poisson regression, 1987.
struct NegativeBinomial {
    static constexpr bool classifies = false;
    double inverse, shift; // 1/a and log a
    explicit NegativeBinomial(double a) : inverse(1 / a), shift(std::log(a)) {}
    template <class V> LossValues<V> operator()(V m, V y) const {
        V s = m + shift, e = exp_negative(-vabs(s)), part = 1.0 / (1.0 + e);
        V share = select<V>(s >= 0.0, part, e * part); // a mu / (1 + a mu)
        V n = y + inverse, log_term = vmax(s, V{}) + log1p_unit(e);
        return {n * log_term - y * m, n * share - y, n * e * part * part};
    }
};

struct ExpectedNegativeBinomial {
    static constexpr bool classifies = false;
    NegativeBinomial observed;
    explicit ExpectedNegativeBinomial(double a) : observed(a) {}
    template <class V> LossValues<V> operator()(V m, V y) const {
        LossValues<V> v = observed(m, y);
        return {v.loss, v.derivative,
                (v.derivative + y) / (y + observed.inverse) * observed.inverse};
    }
};

// exp((2 - p) m) / (2 - p) + y exp((1 - p) m) / (p - 1), 1 < p < 2: half the deviance of amounts
// with mean mu = exp(m) and variance proportional to mu^p, without terms independent of m.
// Jorgensen, Exponential dispersion models, 1987.
struct Tweedie {
    static constexpr bool classifies = false;
    double p;
    explicit Tweedie(double power) : p(power) {}
    template <class V> LossValues<V> operator()(V m, V y) const {
        V mean = exp_of((2 - p) * m); // y = 0 has no share, also where the exponential overflows
        V share = select<V>(y > 0.0, y * exp_of((1 - p) * m), V{});
        return {mean * (1 / (2 - p)) + share * (1 / (p - 1)), mean - share,
                (2 - p) * mean + (p - 1) * share};
    }
};

struct ExpectedTweedie {
    static constexpr bool classifies = false;
    Tweedie observed;
    explicit ExpectedTweedie(double p) : observed(p) {}
    template <class V> LossValues<V> operator()(V m, V y) const {
        LossValues<V> v = observed(m, y);
        return {v.loss, v.derivative, exp_of((2 - observed.p) * m)};
    }
};

// With r = m - y: r^2 / 2 for |r| <= delta, and delta (|r| - delta / 2) beyond. Huber, Robust
// estimation of a location parameter, 1964.
struct Huber {
    static constexpr bool classifies = false;
    double delta;
    explicit Huber(double d) : delta(d) {}
    template <class V> LossValues<V> operator()(V m, V y) const {
        V r = m - y, size = vabs(r), edge = V{} + delta;
        Mask<V> near = size <= delta;
        return {select<V>(near, 0.5 * r * r, delta * (size - 0.5 * delta)),
                select<V>(near, r, select<V>(r > 0.0, edge, -edge)),
                select<V>(near, V{} + 1.0, V{})};
    }
};

// max(t r, (t - 1) r) with r = y - m, whose best constant is the t-quantile (Koenker and Bassett,
// Regression quantiles, 1978). Smoothing g > 0 replaces the corner by r^2 / 2g where the slope is
// between t - 1 and t.
struct Pinball {
    static constexpr bool classifies = false;
    double t, g;
    Pinball(double quantile, double smoothing) : t(quantile), g(smoothing) {}
    template <class V> LossValues<V> operator()(V m, V y) const {
        V r = y - m, above = V{} + t, below = V{} + (t - 1.0);
        if (g == 0.0) {
            V slope = select<V>(r > 0.0, above, select<V>(r < 0.0, below, V{}));
            return {slope * r, -slope, V{}};
        }
        V steep = r * (1.0 / g);
        V slope = vmax(-vmax(-steep, -above), below); // between both
        Mask<V> corner = slope == steep;
        return {slope * (r - 0.5 * g * slope), -slope, select<V>(corner, V{} + 1.0 / g, V{})};
    }
};

} // namespace tusk
