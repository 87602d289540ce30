// The best split of a leaf by the levels of a category.
#pragma once

#include "../split.hpp"

namespace tusk {

// Replaces *best by a split of one category if that gains more. Sets of levels go left; all levels
// without a bin and missing values go right.
void improve_by_levels(const Rule &rule, const Bins &bins, const Sum *histogram, const Sum &leaf,
                       int32_t feature, const Limits &limits, Split *best);
void improve_by_levels(const Rule &rule, const Bins &bins, const Addend *histogram,
                       const Sum &leaf, int32_t feature, const Limits &limits, Split *best);

// The best split of a leaf by some features, numbers and categories.
template <class Cell>
Split best_split_of(const Rule &rule, const Bins &bins, const Cell *sums, const Sum &leaf,
                    const std::vector<int32_t> &numbers, const std::vector<int32_t> &categories,
                    const Limits &of_leaf) {
    Limits limits{of_leaf.low, of_leaf.high}; // without the l2 of levels
    std::vector<int32_t> room, other_room;
    const auto &tried = allowed(*rule.boost, of_leaf, numbers, room);
    Split best = rule.boost->monotone ? best_monotone_split(rule, bins, sums, leaf, tried, limits)
                 : has_few_rows(rule, leaf.rows) ? best_split_of_few(rule, bins, sums, leaf, tried)
                                                 : best_split(rule, bins, sums, leaf, tried);
    for (int32_t f : allowed(*rule.boost, of_leaf, categories, other_room))
        improve_by_levels(rule, bins, sums, leaf, f, limits, &best);
    return best;
}

} // namespace tusk
