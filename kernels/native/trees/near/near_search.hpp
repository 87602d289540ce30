// The best split of a leaf of a small group, by its histogram of words.
#pragma once

#include "../split.hpp"
#include "near_rows.hpp"

namespace tusk {

// What a split of a leaf gains, by rounded sums. bin, missing_left: as in Split.
struct NearSplit {
    double gain = 0;
    int32_t feature = -1; // -1: there is none
    int32_t bin = -1;
    bool missing_left = false;
};

// The split with the largest gain of the features that are chosen. total: the sum of the leaf's
// words. chosen: (stride,) 1: the cell's feature may be split by; gaps: (stride,) the bin of its
// missing values or -1, or NULL: there is none.
NearSplit near_split(const Rule &rule, const NearRows &rows, const int64_t *histogram,
                     int64_t total, const uint8_t *chosen, const int32_t *gaps);

} // namespace tusk
