// Splits by levels, in the order of their gradients (api.h cites the source), with LightGBM's
// limits.
#include "category_split.hpp"

#include <algorithm>
#include <cmath>

namespace tusk {
namespace {

// Largest residue of a gain of 0 by rounding, as a fraction of the leaf's score.
constexpr double NOISE = 1e-12;

// Twice the decrease of the objective by a leaf with these sums.
double score_of(const Rule &rule, const Sum &s, const Limits &limits) {
    double v = rule.value(s, limits), h = rule.curvature(s) + rule.boost->l2 + limits.l2;
    return -(2 * rule.gradient(s) * v + h * v * v) - 2 * rule.boost->l1 * std::fabs(v);
}

struct Level {
    Sum sum;
    uint8_t bin;
    double order; // sort key
};

// The search of one category of one leaf.
class LevelSearch {
public:
    LevelSearch(const Rule &rule, const Sum &leaf, int32_t feature, const Limits &limits,
                Split *best)
        : rule_(rule), boost_(*rule.boost), leaf_(leaf), feature_(feature), limits_(limits),
          best_(best), parent_(score_of(rule, leaf, limits)),
          least_curvature_(rule.least_curvature(leaf)) {
        least_ = std::max({best->gain, boost_.min_gain, NOISE * std::fabs(parent_)});
    }

    // Each level against all others.
    void one_by_one(const std::vector<Level> &levels) {
        for (const Level &level : levels)
            if (large_enough(level.sum) && large_enough(leaf_ - level.sum))
                look(level.sum, &level, 1, 1);
    }

    // Sets of the first levels, and of the last ones.
    void sorted(std::vector<Level> levels) {
        limits_.l2 = boost_.cat_l2;
        auto few = [&](const Level &one) { return (double)one.sum.rows < boost_.cat_smooth; };
        levels.erase(std::remove_if(levels.begin(), levels.end(), few), levels.end());
        if (levels.empty())
            return;
        double smooth = boost_.cat_smooth / rule_.scale;
        for (Level &one : levels)
            one.order = rule_.gradient(one.sum) / (rule_.curvature(one.sum) + smooth);
        std::stable_sort(levels.begin(), levels.end(),
                         [](const Level &a, const Level &b) { return a.order < b.order; });
        auto n = (int64_t)levels.size();
        int64_t most = std::min<int64_t>(boost_.max_cat_threshold, (n + 1) / 2);
        prefixes(levels.data(), most, 1);
        prefixes(levels.data() + n - 1, most, -1);
    }

private:
    bool large_enough(const Sum &s) const {
        double h = rule_.curvature(s);
        return s.rows >= boost_.min_child_rows && h >= least_curvature_ &&
               h + boost_.l2 + limits_.l2 > 0;
    }

    // Sets of 1, 2, ... levels from a first one on, in steps of 1 or -1.
    void prefixes(const Level *first, int64_t most, int64_t step) {
        Sum left{0, 0, 0};
        int64_t since = 0; // rows since the last set that was evaluated
        for (int64_t n = 1; n <= most; n++) {
            left += first[(n - 1) * step].sum;
            since += first[(n - 1) * step].sum.rows;
            if (!large_enough(left))
                continue;
            Sum right = leaf_ - left;
            if (!large_enough(right) || right.rows < boost_.min_category_rows)
                break;
            if (since < boost_.min_category_rows)
                continue;
            since = 0;
            look(left, first, n, step);
        }
    }

    void look(const Sum &left, const Level *first, int64_t n, int64_t step) {
        double gain =
            score_of(rule_, left, limits_) + score_of(rule_, leaf_ - left, limits_) - parent_;
        if (!(gain > least_))
            return;
        least_ = gain;
        *best_ = Split{gain, feature_, -1, false, left, true, {}, limits_.l2};
        for (int64_t i = 0; i < n; i++)
            best_->set.add(first[i * step].bin);
    }

    const Rule &rule_;
    const tk_boost &boost_;
    const Sum &leaf_;
    int32_t feature_;
    Limits limits_;
    Split *best_;
    double parent_, least_curvature_, least_;
};

template <class Cell>
void improve(const Rule &rule, const Bins &bins, const Cell *histogram, const Sum &leaf,
             int32_t feature, const Limits &limits, Split *best) {
    std::vector<Level> levels;
    const Cell *of_feature = histogram + bins.first[feature];
    for (int32_t b = 0; b < bins.values(feature); b++)
        if (Sum sum = sum_of(of_feature[b]); sum.rows)
            levels.push_back({sum, (uint8_t)b, 0});
    LevelSearch search(rule, leaf, feature, limits, best);
    if (bins.values(feature) <= rule.boost->max_cat_to_onehot)
        search.one_by_one(levels);
    else
        search.sorted(std::move(levels));
}

} // namespace

void improve_by_levels(const Rule &rule, const Bins &bins, const Sum *histogram, const Sum &leaf,
                       int32_t feature, const Limits &limits, Split *best) {
    improve(rule, bins, histogram, leaf, feature, limits, best);
}

void improve_by_levels(const Rule &rule, const Bins &bins, const Addend *histogram,
                       const Sum &leaf, int32_t feature, const Limits &limits, Split *best) {
    improve(rule, bins, histogram, leaf, feature, limits, best);
}

} // namespace tusk
