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
    Split best =
        rule.boost->monotone ? best_monotone_split(rule, bins, sums, leaf, numbers, limits)
        : has_few_rows(rule, leaf.rows) ? best_split_of_few(rule, bins, sums, leaf, numbers)
                                        : best_split(rule, bins, sums, leaf, numbers);
    for (int32_t f : categories)
        improve_by_levels(rule, bins, sums, leaf, f, limits, &best);
    return best;
}

} // namespace tusk
