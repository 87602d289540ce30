// The penalty l1 |w| + l2/2 w^2, with or without w >= 0, and the gap of least squares with it.
#pragma once

#include <algorithm>
#include <cmath>

namespace tusk {

struct Penalty {
    double l1, l2;
    bool positive;

    // The w that minimises curvature/2 w^2 - z w and the penalty.
    double least(double z, double curvature) const {
        if (z > l1)
            return (z - l1) / (curvature + l2);
        if (z < -l1 && !positive)
            return (z + l1) / (curvature + l2);
        return 0;
    }
    // The quantity that must be at most l1 in the dual, for a coordinate whose correlation with
    // the dual is u.
    double size(double u) const { return positive ? std::max(u, 0.0) : std::abs(u); }
    // The same for a block, from the root of its size and its sum of squares.
    double of_block(double root, double w2) const {
        return l1 * root * std::sqrt(w2) + 0.5 * l2 * w2;
    }
    double of(double w) const { return l1 * std::abs(w) + 0.5 * l2 * w * w; }
};

// Sums for the objective 1/2 ||Y - A w||^2 + penalty(w) and its dual. The penalty l2 counts as
// rows sqrt(l2) with targets 0, so that the dual is that of the lasso, c (Y - A w) with a factor c
// that makes it feasible.
struct GapSums {
    double squares = 0; // ||Y - A w||^2
    double product = 0; // (Y - A w).Y
    double penalty = 0, ridge = 0;
    double most = 0;     // of `Penalty::size`
    double unfitted = 0; // largest effect of gradients of weights without a penalty on the gap

    void add(const Penalty &p, double w, double u) {
        penalty += p.of(w);
        ridge += p.l2 * w * w;
        most = std::max(most, p.size(u - p.l2 * w));
    }
    // A block of weights whose norms are penalised together: w2 and s2 are the sums of w^2 and of
    // (u - l2 w)^2, root that of their number.
    void add_block(const Penalty &p, double root, double w2, double s2) {
        penalty += p.of_block(root, w2);
        ridge += p.l2 * w2;
        most = std::max(most, std::sqrt(s2) / root);
    }
    double primal() const { return 0.5 * squares + penalty; }
    double factor(const Penalty &p) const {
        double all = squares + ridge;
        double best = all > 0 ? std::max(product / all, 0.0) : 0;
        return most * best > p.l1 ? p.l1 / most : best;
    }
    double gap(const Penalty &p) const {
        double c = factor(p);
        return std::max(primal() - c * product + 0.5 * c * c * (squares + ridge), 0.0) + unfitted;
    }
};

} // namespace tusk
