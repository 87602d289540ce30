// Losses of a likelihood at another link than its usual one: the mean is a function of the margin.
//
// The curvature is the expected one, with which Newton's method is that of iteratively reweighted
// least squares (McCullagh and Nelder, Generalized linear models, 1989, 2.5): the observed one may
// be negative. Outside of the link's domain, such as a mean of counts below 0, the loss is larger
// than any other. With a parameter other than 0 the derivative is Pearson's residual.
#pragma once

#include <cmath>

#include "dense.hpp"

namespace tusk {

// The numbers go on after those of LossKind.
enum class LinkedKind : int32_t {
    probit = 32,
    cloglog = 33,
    gaussian_log = 34,
    gaussian_inverse = 35,
    poisson_identity = 36,
    poisson_sqrt = 37,
    gamma_identity = 38,
    gamma_inverse = 39,
    inverse_gaussian_log = 40,
    inverse_gaussian_identity = 41,
    inverse_gaussian_inverse = 42,
    inverse_gaussian_inverse_squared = 43,
};

constexpr bool is_linked(LossKind kind) {
    return (int32_t)kind >= (int32_t)LinkedKind::probit;
}

constexpr bool has_classes(LossKind kind) {
    return is_of_classes(kind) || kind == (LossKind)LinkedKind::probit ||
           kind == (LossKind)LinkedKind::cloglog;
}

// Labels of counts are at least 0, those of gamma and of the inverse Gaussian family above 0.
constexpr LeastLabel least_of(LossKind kind) {
    switch ((LinkedKind)kind) {
    case LinkedKind::poisson_identity:
    case LinkedKind::poisson_sqrt:
        return {0, true};
    case LinkedKind::gamma_identity:
    case LinkedKind::gamma_inverse:
    case LinkedKind::inverse_gaussian_log:
    case LinkedKind::inverse_gaussian_identity:
    case LinkedKind::inverse_gaussian_inverse:
    case LinkedKind::inverse_gaussian_inverse_squared:
        return {0, false};
    default:
        return least_label(kind);
    }
}

// Finite, since lanes behind the last row have the weight 0.
constexpr double OUTSIDE = 1e300;

struct RowLoss {
    double loss, derivative, curvature;
};

// A loss that is computed row by row.
template <class Exact> struct ByRow {
    static constexpr bool classifies = Exact::classifies;
    Exact exact;
    explicit ByRow(double parameter) : exact(parameter) {}
    template <class V> LossValues<V> operator()(V m, V y) const {
        LossValues<V> all{};
        for (int i = 0; i < (int)(sizeof(V) / sizeof(double)); i++) {
            const RowLoss one = exact(m[i], y[i]);
            all.loss[i] = one.loss;
            all.derivative[i] = one.derivative;
            all.curvature[i] = one.curvature;
        }
        return all;
    }
};

// -log Phi(y m), y in {-1, +1}, with the expected curvature phi^2 / (Phi (1 - Phi)).
struct Probit {
    static constexpr bool classifies = true;
    explicit Probit(double) {}

    // phi(x) / Phi(x). Far below 0, where both underflow, from the continued fraction of Mills'
    // ratio (Abramowitz and Stegun, 26.2.14).
    static double hazard(double x) {
        if (x > -20)
            return std::exp(-0.5 * x * x) * 0.79788456080286535588 /
                   std::erfc(-x * 0.70710678118654752440);
        double rest = 0;
        for (int k = 12; k > 0; k--)
            rest = k / (-x + rest);
        return -x + rest;
    }
    static double log_share(double x) {
        if (x > -20)
            return std::log(0.5 * std::erfc(-x * 0.70710678118654752440));
        return -0.5 * x * x - 0.91893853320467274178 - std::log(hazard(x));
    }
    RowLoss operator()(double m, double y) const {
        const double wrong = hazard(-m), right = hazard(m);
        return {-log_share(y * m), -y * hazard(y * m), right * wrong};
    }
};

// The complementary log-log link: P(+1) = 1 - exp(-exp(m)), with the expected curvature.
struct Cloglog {
    static constexpr bool classifies = true;
    explicit Cloglog(double) {}
    RowLoss operator()(double m, double y) const {
        const double t = std::exp(m);
        const double odds = t < 700 ? std::expm1(t) : HUGE_VAL; // of +1 over -1
        const double each = m < -700 ? 1 : t / odds;            // t / (exp(t) - 1)
        const double bend = t < 700 ? t * each : 0;
        if (y < 0)
            return {t, t, bend};
        const double loss = m < -30 ? -m : -std::log(-std::expm1(-t));
        return {loss, -each, bend};
    }
};

// --- links: the mean of a margin, its slope, and whether the margin is in the link's domain ---

struct IdentityLink {
    static bool has(double) { return true; }
    static double mean(double m) { return m; }
    static double slope(double, double) { return 1; }
};
struct LogLink {
    static bool has(double) { return true; }
    static double mean(double m) { return std::exp(m); }
    static double slope(double, double mean) { return mean; }
};
struct InverseLink {
    static bool has(double m) { return m != 0; }
    static double mean(double m) { return 1 / m; }
    static double slope(double, double mean) { return -mean * mean; }
};
struct SqrtLink {
    static bool has(double m) { return m > 0; }
    static double mean(double m) { return m * m; }
    static double slope(double m, double) { return 2 * m; }
};
struct InverseSquaredLink {
    static bool has(double m) { return m > 0; }
    static double mean(double m) { return 1 / std::sqrt(m); }
    static double slope(double, double mean) { return -0.5 * mean * mean * mean; }
};

// --- families: half the deviance up to a constant of the label, and the variance ---

struct GaussianFamily {
    static bool has(double) { return true; }
    static double loss(double mean, double y) { return 0.5 * (mean - y) * (mean - y); }
    static double variance(double) { return 1; }
};
struct PoissonFamily {
    static bool has(double mean) { return mean > 0; }
    static double loss(double mean, double y) { return mean - y * std::log(mean); }
    static double variance(double mean) { return mean; }
};
struct GammaFamily {
    static bool has(double mean) { return mean > 0; }
    static double loss(double mean, double y) { return y / mean + std::log(mean); }
    static double variance(double mean) { return mean * mean; }
};
// Chhikara and Folks, The inverse Gaussian distribution, 1989.
struct InverseGaussianFamily {
    static bool has(double mean) { return mean > 0; }
    static double loss(double mean, double y) { return (0.5 * y / mean - 1) / mean; }
    static double variance(double mean) { return mean * mean * mean; }
};

template <class Family, class Link> struct Linked {
    static constexpr bool classifies = false;
    bool pearson;
    explicit Linked(double parameter) : pearson(parameter != 0) {}
    RowLoss operator()(double m, double y) const {
        if (!Link::has(m))
            return {OUTSIDE, 0, 0};
        const double mean = Link::mean(m);
        if (!Family::has(mean))
            return {OUTSIDE, 0, 0};
        const double slope = Link::slope(m, mean), variance = Family::variance(mean);
        const double by = pearson ? 1 / std::sqrt(variance) : slope / variance;
        return {Family::loss(mean, y), (mean - y) * by, slope * slope / variance};
    }
};

// Calls body with the loss of a likelihood at another link than its usual one.
template <class Body> inline auto with_linked_loss(const Loss &loss, Body &&body) {
    const double parameter = loss.parameter;
    switch ((LinkedKind)loss.kind) {
    case LinkedKind::probit:
        return body(ByRow<Probit>(parameter));
    case LinkedKind::cloglog:
        return body(ByRow<Cloglog>(parameter));
    case LinkedKind::gaussian_log:
        return body(ByRow<Linked<GaussianFamily, LogLink>>(parameter));
    case LinkedKind::gaussian_inverse:
        return body(ByRow<Linked<GaussianFamily, InverseLink>>(parameter));
    case LinkedKind::poisson_identity:
        return body(ByRow<Linked<PoissonFamily, IdentityLink>>(parameter));
    case LinkedKind::poisson_sqrt:
        return body(ByRow<Linked<PoissonFamily, SqrtLink>>(parameter));
    case LinkedKind::gamma_identity:
        return body(ByRow<Linked<GammaFamily, IdentityLink>>(parameter));
    case LinkedKind::gamma_inverse:
        return body(ByRow<Linked<GammaFamily, InverseLink>>(parameter));
    case LinkedKind::inverse_gaussian_identity:
        return body(ByRow<Linked<InverseGaussianFamily, IdentityLink>>(parameter));
    case LinkedKind::inverse_gaussian_inverse:
        return body(ByRow<Linked<InverseGaussianFamily, InverseLink>>(parameter));
    case LinkedKind::inverse_gaussian_inverse_squared:
        return body(ByRow<Linked<InverseGaussianFamily, InverseSquaredLink>>(parameter));
    default:
        return body(ByRow<Linked<InverseGaussianFamily, LogLink>>(parameter));
    }
}

// Calls body with the loss of any kind.
template <class Body> inline auto with_any_loss(const Loss &loss, Body &&body) {
    return is_linked(loss.kind) ? with_linked_loss(loss, body) : with_loss(loss, body);
}

} // namespace tusk
