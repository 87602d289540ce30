// The best split of a leaf, by its histogram.
#pragma once

#include "histogram.hpp"

namespace tusk {

// A set of bins of one feature.
struct CodeSet {
    uint64_t words[4] = {0, 0, 0, 0};

    bool has(uint8_t code) const { return words[code >> 6] >> (code & 63) & 1; }
    void add(uint8_t code) { words[code >> 6] |= UINT64_C(1) << (code & 63); }
};

struct Split {
    double gain = 0; // 0: there is none
    int32_t feature = -1;
    int32_t bin = -1;          // rows up to this bin go left
    bool missing_left = false; // side of rows with a missing value
    Sum left{0, 0, 0};
    bool by_level = false; // rows of the bins in `set` go left, and `bin` is unused
    CodeSet set{};
    double l2 = 0; // l2 of the children in addition to the option's
};

// Limits of a leaf: of its values, in units of the margin without the learning rate, and of the
// features of its splits.
struct Limits {
    double low = -__builtin_huge_val(), high = __builtin_huge_val();
    double l2 = 0; // added to the option's
    uint64_t sets =
        ~UINT64_C(0);  // that have all features on the way here; all bits: there is none
    int32_t only = -1; // the feature on the way here that is in no set; -1: there is none

    // Whether a split may use a feature of these sets.
    bool allows(int32_t feature, uint64_t in_sets) const {
        return only >= 0 ? feature == only : sets == ~UINT64_C(0) || (in_sets & sets);
    }
    void use(int32_t feature, uint64_t in_sets) {
        if (!in_sets)
            only = feature;
        sets &= in_sets;
    }
};
// The features that the splits of a leaf may use. room: for the result, unless it is `features`.
const std::vector<int32_t> &allowed(const tk_boost &boost, const Limits &limits,
                                    const std::vector<int32_t> &features,
                                    std::vector<int32_t> &room);

// Largest residue of a gain of 0 by rounding, as a fraction of the leaf's score. Without this
// limit, a leaf whose rows are all alike would be split.
constexpr double NOISE = 1e-12;

// The rules for weights in a scale (`Weights`): those of a caller, whose penalties, gains and
// least curvatures are in the caller's weights.
tk_boost scaled(const tk_boost &boost, double scale);

// The rules that a split must keep, and what sums stand for, both in scaled weights. scale: what a
// scaled weight of 1 is for the caller.
struct Rule {
    const tk_boost *boost;
    Units units;
    double scale;

    double gradient(const Sum &s) const { return (double)s.gradient * units.gradient; }
    double curvature(const Sum &s) const { return (double)s.curvature * units.curvature; }
    // The least curvature of the children of a leaf: the option's, and the mean curvature of the
    // least rows of a leaf at this leaf, to half a row. So a few rows of a rare class, among
    // others that are sure by now, are not a leaf, whose value would be far too large (as in
    // LightGBM, which estimates rows by their curvature). Not for random forests, whose leaves are
    // means.
    double least_curvature(const Sum &leaf) const;
    // |gradient| minus the l1 penalty, with its sign.
    double shrunk(double gradient) const;
    // Twice the decrease of the objective by a leaf with these sums.
    double score(double gradient, double curvature) const;
    // The value of a leaf with these sums within the limits, before the learning rate.
    double value(const Sum &s, const Limits &limits) const;
};

// The split with the largest gain of the features given, the first one of ties. Missing values are
// tried on either side; a feature without any sends them to the larger child.
Split best_split(const Rule &rule, const Bins &bins, const Sum *histogram, const Sum &leaf,
                 const std::vector<int32_t> &features);
Split best_split(const Rule &rule, const Bins &bins, const Addend *histogram, const Sum &leaf,
                 const std::vector<int32_t> &features);

// The bin that ends the left child, where a leaf has rows in `last` and `next` and none between:
// all bounds between them have the same gain. Boosting takes the first, as LightGBM does. Forests
// take the one nearest to the middle (Breiman et al. 1984), which depends less on the draw.
int32_t last_of_left(const tk_boost &boost, const Bins &bins, int32_t f, int32_t last,
                     int32_t next);
// The first bin after `last` with rows, of the histogram of a feature, or the number of bins with
// values if there is none. If `last` has no rows, as missing values alone go left, the next bin.
template <class Cell>
int32_t next_with_rows(const Bins &bins, const Cell *histogram, int32_t f, int32_t last) {
    int32_t next = last + 1;
    bool divides = sum_of(histogram[last]).rows > 0;
    while (divides && next < bins.values(f) && !sum_of(histogram[next]).rows)
        next++;
    return next;
}

// The same for leaves of forests of at most MOST_FEW_ROWS, whose empty bins are left out: the
// candidate before them is the same split. By the rows of a leaf, the time is proportional to its
// rows, not to all bins. By rows and by histograms the same numbers are compared, in the same
// order.
constexpr int64_t MOST_FEW_ROWS = 255;
struct LeafOf {
    const uint32_t *which;
    int64_t n;
    Sum sum;
};
Split best_split_of_few(const Rule &rule, const Bins &bins, const Rows &rows, const LeafOf &leaf,
                        const std::vector<int32_t> &features);
Split best_split_of_few(const Rule &rule, const Bins &bins, const Sum *histogram, const Sum &leaf,
                        const std::vector<int32_t> &features);
Split best_split_of_few(const Rule &rule, const Bins &bins, const Addend *histogram,
                        const Sum &leaf, const std::vector<int32_t> &features);
inline bool has_few_rows(const Rule &rule, int64_t n) {
    return rule.boost->averaged && !rule.boost->monotone && n <= MOST_FEW_ROWS;
}

// The same if some features must have a monotone effect: children keep the limits of their leaf,
// and for such a feature the order. Gains are those of the values within the limits (LightGBM's
// method `basic`).
Split best_monotone_split(const Rule &rule, const Bins &bins, const Sum *histogram,
                          const Sum &leaf, const std::vector<int32_t> &features,
                          const Limits &limits);
Split best_monotone_split(const Rule &rule, const Bins &bins, const Addend *histogram,
                          const Sum &leaf, const std::vector<int32_t> &features,
                          const Limits &limits);
// The limits of both children of a leaf with these limits.
struct ChildLimits {
    Limits left, right;
};
ChildLimits limits_behind(const Rule &rule, const Split &split, const Sum &right,
                          const Limits &limits);

} // namespace tusk
