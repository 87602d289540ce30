// The best split of a leaf by the levels of a category.
#pragma once

#include "../split.hpp"

namespace tusk {

// Replaces *best by a split of one category if that gains more. Sets of levels go left; all levels
// that have no bin and missing values go right.
void improve_by_levels(const Rule &rule, const Bins &bins, const Sum *histogram, const Sum &leaf,
                       int32_t feature, const Limits &limits, Split *best);
void improve_by_levels(const Rule &rule, const Bins &bins, const Addend *histogram,
                       const Sum &leaf, int32_t feature, const Limits &limits, Split *best);

} // namespace tusk
