// The best split of a leaf of a small group, by its histogram of words.
#pragma once

#include "../split.hpp"
#include "near_rows.hpp"

namespace tusk {

// Gain of a split of a leaf, by rounded sums. bin, missing_left: as in Split.
struct NearSplit {
    double gain = 0;
    int32_t feature = -1; // -1: there is none
    int32_t bin = -1;
    bool missing_left = false;
};

// The rules of a tree's splits, in units of words.
struct NearRule {
    NearRule() = default;
    NearRule(const Rule &rule, const Packing &packing);

    int32_t least_rows = 1;
    float l2 = 0, least_curvature = 0;
    float slack = 0;          // largest effect of rounding on a child's curvature, if it matters
    double gain_unit = 0;     // a gain of 1
    const uint16_t *features; // a bit of each 16 features: whether they may be split by
    const int32_t *gaps;      // (stride,) bins of missing values or -1; NULL: there is none
};

// The split with the largest gain, the first feature's of equal gains. total: the sum of the
// leaf's words.
NearSplit near_split(const NearRule &rule, const NearRows &rows, const int64_t *histogram,
                     int64_t total);

} // namespace tusk
