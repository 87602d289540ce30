// The log-likelihood log(G(b) - G(a)) of a row between two ends a < b, -infinity and infinity for
// the first and the last level, and its derivatives by them. No term is a difference of numbers
// that are almost equal, nor overflows, far out on either side.
#pragma once

#include <cmath>

#include "../linear/links.hpp"

namespace tusk {

struct LevelTerms {
    double loss, by_a, by_b;    // -log p, and the derivatives of log p
    double by_aa, by_ab, by_bb; // its second ones
};

// log p = log G(b) + log(1 - G(a)) + log(1 - exp(a - b)).
struct LogitLevels {
    static double softplus(double x) {
        return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
    }
    static LevelTerms of(double a, double b) {
        const double above = 1 / (1 + std::exp(b)), below = 1 / (1 + std::exp(-a));
        const double odds = 1 / std::expm1(b - a), bend = odds * (1 + odds);
        return {softplus(-b) + softplus(a) - std::log(-std::expm1(a - b)),
                -below - odds,
                above + odds,
                -below * (1 - below) - bend,
                bend,
                -above * (1 - above) - bend};
    }
};

// Both ends are mirrored where they lie on the right, so that b is finite.
struct ProbitLevels {
    static LevelTerms of(double a, double b) {
        if (a + b > 0) {
            const LevelTerms t = of(-b, -a);
            return {t.loss, -t.by_b, -t.by_a, t.by_bb, t.by_ab, t.by_aa};
        }
        const bool first = std::isinf(a);
        const double log_b = Probit::log_share(b);
        const double log_ratio = first ? -HUGE_VAL : Probit::log_share(a) - log_b;
        const double rest = -std::expm1(log_ratio), of_b = Probit::hazard(b) / rest;
        const double of_a = first ? 0 : Probit::hazard(a) * std::exp(log_ratio) / rest;
        return {
            -log_b - std::log(rest), -of_a, of_b, first ? 0 : a * of_a - of_a * of_a, of_a * of_b,
            -b * of_b - of_b * of_b};
    }
};

// With A = exp(a) and B = exp(b), p = exp(-A) (1 - exp(A - B)).
struct CloglogLevels {
    static constexpr double SMALL = -30, LARGE = 700;
    static LevelTerms of(double a, double b) {
        const double low = std::exp(a);
        if (std::isinf(b))
            return {low, -low, 0, -low, 0, 0};
        const double high = std::exp(b), share = -std::expm1(a - b), width = high * share;
        const double log_rest = b < SMALL ? b + std::log(share) : std::log(-std::expm1(-width));
        const double of_b = b < SMALL ? 1 / share : width > LARGE ? 0 : high / std::expm1(width);
        const double of_a = of_b * std::exp(a - b), bent = of_b > 0 ? high * of_b : 0;
        return {low - log_rest,
                -low - of_a,
                of_b,
                -low - of_a - low * of_a - of_a * of_a,
                low * of_b + of_a * of_b,
                of_b - bent - of_b * of_b};
    }
};

// Calls body with the link's terms.
template <class Body> auto with_link(int32_t link, Body &&body) {
    return link == 0   ? body(LogitLevels())
           : link == 1 ? body(ProbitLevels())
                       : body(CloglogLevels());
}

} // namespace tusk
