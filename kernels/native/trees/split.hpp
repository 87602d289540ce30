// The best split of a leaf, by its histogram.
#pragma once

#include "histogram.hpp"

namespace tusk {

struct Split {
    double gain = 0; // 0: there is none
    int32_t feature = -1;
    int32_t bin = -1;          // rows up to this bin go left
    bool missing_left = false; // where rows with a missing value go
    Sum left{0, 0, 0};
};

// The rules that a split must keep, and what sums stand for.
struct Rule {
    const tk_boost *boost;
    Units units;

    double gradient(const Sum &s) const { return (double)s.gradient * units.gradient; }
    double curvature(const Sum &s) const { return (double)s.curvature * units.curvature; }
    // |gradient| less the l1 penalty, with its sign.
    double shrunk(double gradient) const;
    // Twice what a leaf with these sums lowers the objective by.
    double score(double gradient, double curvature) const;
    // What a leaf with these sums adds to the margin.
    double value(const Sum &s) const;
};

// The split with the largest gain of the features given, the first one of equal gains.
// Missing values are tried on either side; a feature that has none sends them to the larger child.
Split best_split(const Rule &rule, const Bins &bins, const Sum *histogram, const Sum &leaf,
                 const std::vector<int32_t> &features);
Split best_split(const Rule &rule, const Bins &bins, const Addend *histogram, const Sum &leaf,
                 const std::vector<int32_t> &features);

} // namespace tusk
