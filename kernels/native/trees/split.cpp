// Finds splits.
#include "split.hpp"

#include <cmath>

namespace tusk {

double Rule::shrunk(double gradient) const {
    double size = std::fabs(gradient) - boost->l1;
    return size > 0 ? std::copysign(size, gradient) : 0;
}

double Rule::score(double gradient, double curvature) const {
    double g = boost->l1 ? shrunk(gradient) : gradient, h = curvature + boost->l2;
    return h > 0 ? g * g / h : 0;
}

double Rule::value(const Sum &s) const {
    double h = curvature(s) + boost->l2;
    return h > 0 ? -boost->learning_rate * shrunk(gradient(s)) / h : 0;
}

namespace {

void search_feature(const Rule &rule, const Sum *bins, int32_t n, const Sum &leaf, double parent,
                    int32_t feature, Split *best) {
    int64_t least = rule.boost->min_child_rows;
    double least_curvature = rule.boost->min_child_hessian;
    Sum left{0, 0, 0};
    for (int32_t b = 0; b + 1 < n; b++) {
        if (!bins[b].rows)
            continue; // the same split as at the bin before
        left += bins[b];
        if (left.rows < least)
            continue;
        Sum right = leaf - left;
        if (right.rows < least)
            break;
        double hl = rule.curvature(left), hr = rule.curvature(right);
        if (hl < least_curvature || hr < least_curvature)
            continue;
        double gain =
            rule.score(rule.gradient(left), hl) + rule.score(rule.gradient(right), hr) - parent;
        if (gain > best->gain)
            *best = Split{gain, feature, b, left};
    }
}

} // namespace

Split best_split(const Rule &rule, const Bins &bins, const Sum *histogram, const Sum &leaf,
                 const std::vector<int32_t> &features) {
    Split best;
    double parent = rule.score(rule.gradient(leaf), rule.curvature(leaf));
    best.gain = rule.boost->min_gain;
    for (int32_t f : features)
        search_feature(rule, histogram + bins.first[f], bins.count(f), leaf, parent, f, &best);
    if (best.feature < 0)
        best.gain = 0;
    return best;
}

} // namespace tusk
