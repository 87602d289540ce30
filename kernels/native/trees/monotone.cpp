// Splits of features with a monotone effect.
#include <cmath>

#include "split.hpp"

namespace tusk {
namespace {

// Twice the decrease of the objective by a leaf with these sums and the value v.
double score_of(const Rule &rule, const Sum &s, double v) {
    double h = rule.curvature(s) + rule.boost->l2;
    return -(2 * rule.gradient(s) * v + h * v * v) - 2 * rule.boost->l1 * std::fabs(v);
}

struct Task {
    const Rule &rule;
    const Sum &leaf;
    const Limits &limits;
    double parent, least_curvature;
};

bool large_enough(const Task &task, const Sum &s) {
    const Rule &rule = task.rule;
    double h = rule.curvature(s);
    return s.rows >= rule.boost->min_child_rows && h >= task.least_curvature &&
           h + rule.boost->l2 > 0;
}

// The gain of a split, at most 0 if it breaks a rule.
double gain_of(const Task &task, const Sum &left, int8_t direction) {
    const Rule &rule = task.rule;
    Sum right = task.leaf - left;
    if (!large_enough(task, left) || !large_enough(task, right))
        return 0;
    double l = rule.value(left, task.limits), r = rule.value(right, task.limits);
    if (direction * (r - l) < 0)
        return 0;
    return score_of(rule, left, l) + score_of(rule, right, r) - task.parent;
}

template <class Cell>
void search_feature(const Task &task, const Cell *bins, int32_t values, bool gaps, int32_t feature,
                    Split *best) {
    const Sum none{0, 0, 0};
    Sum missing = gaps ? sum_of(bins[values]) : none;
    int8_t direction = task.rule.boost->monotone[feature];
    for (int side = 0; side < (missing.rows ? 2 : 1); side++) {
        Sum left = side ? missing : none;
        int32_t end = missing.rows && !side ? values : values - 1;
        for (int32_t b = 0; b < end; b++) {
            left += sum_of(bins[b]);
            double gain = gain_of(task, left, direction);
            if (gain <= best->gain)
                continue;
            bool larger = 2 * left.rows >= task.leaf.rows;
            *best = Split{gain, feature, b, missing.rows ? side == 1 : larger, left};
        }
    }
}

template <class Cell>
Split best_of(const Rule &rule, const Bins &bins, const Cell *histogram, const Sum &leaf,
              const std::vector<int32_t> &features, const Limits &limits) {
    Task task{rule, leaf, limits, score_of(rule, leaf, rule.value(leaf, limits)),
              rule.least_curvature(leaf)};
    Split best;
    double v = rule.value(leaf, limits), curved = (rule.curvature(leaf) + rule.boost->l2) * v * v;
    double size = std::fabs(2 * rule.gradient(leaf) * v) + curved; // whose rounding gains have
    best.gain = std::max(rule.boost->min_gain, NOISE * size);
    for (int32_t f : features)
        search_feature(task, histogram + bins.first[f], bins.values(f), bins.missing[f], f, &best);
    if (best.feature < 0)
        return Split{};
    int32_t f = best.feature;
    int32_t next = next_with_rows(bins, histogram + bins.first[f], f, best.bin);
    best.bin = last_of_left(*rule.boost, bins, f, best.bin, next);
    return best;
}

} // namespace

Split best_monotone_split(const Rule &rule, const Bins &bins, const Sum *histogram,
                          const Sum &leaf, const std::vector<int32_t> &features,
                          const Limits &limits) {
    return best_of(rule, bins, histogram, leaf, features, limits);
}

Split best_monotone_split(const Rule &rule, const Bins &bins, const Addend *histogram,
                          const Sum &leaf, const std::vector<int32_t> &features,
                          const Limits &limits) {
    return best_of(rule, bins, histogram, leaf, features, limits);
}

const std::vector<int32_t> &allowed(const tk_boost &boost, const Limits &limits,
                                    const std::vector<int32_t> &features,
                                    std::vector<int32_t> &room) {
    if (!boost.together)
        return features;
    for (int32_t f : features)
        if (limits.allows(f, boost.together[f]))
            room.push_back(f);
    return room;
}

ChildLimits limits_behind(const Rule &rule, const Split &split, const Sum &right,
                          const Limits &limits) {
    ChildLimits found{limits, limits};
    found.left.l2 = found.right.l2 = split.l2;
    if (const uint64_t *together = rule.boost->together) {
        found.left.use(split.feature, together[split.feature]);
        found.right.use(split.feature, together[split.feature]);
    }
    int8_t direction = rule.boost->monotone ? rule.boost->monotone[split.feature] : (int8_t)0;
    if (!direction)
        return found;
    double middle = (rule.value(split.left, limits) + rule.value(right, limits)) / 2;
    if (direction > 0)
        found.left.high = found.right.low = middle;
    else
        found.left.low = found.right.high = middle;
    return found;
}

} // namespace tusk
