// Grows the trees of a small group.
#pragma once

#include "../split.hpp"
#include "../tree.hpp"
#include "near_rows.hpp"

namespace tusk {

// The best split of a leaf of a small group, by its histogram of words.

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

// Grows the same trees as Grower, faster: a leaf's rows are a set of bits, which a comparison of a
// feature's bins divides, histograms have words for cells, and those of leaves that are too small
// to be split are omitted. It keeps its memory from tree to tree.
class NearGrower {
public:
    // Whether a group of n rows qualifies: it is small, and splits depend on sums alone.
    static bool fits(const tk_boost &boost, const Bins &bins, int64_t n);

    NearGrower(const tk_boost &boost, const Bins &bins, int64_t cancel_mark, tusk_memory *memory)
        : boost_(boost), bins_(bins), cancel_mark_(cancel_mark), memory_(memory) {}
    // codes: (n, d) bins. Returns a tk_code.
    int take(const uint8_t *codes, int64_t n);

    // Rounds the rows' addends. False: they are so uneven that the tree has to be grown by a
    // Grower.
    bool pack(const Rule &rule, const Addend *addends);
    // Grows a tree of the rows `which` and adds its values to their margins. Returns a tk_code.
    int grow(const std::vector<int32_t> &features, const uint32_t *which, int64_t n,
             double *margins, Tree *out);

private:
    using Set = uint64_t; // of 64 rows

    struct Leaf {
        int32_t node, depth, slot, n;
        Sum sum;
        int64_t total; // of words
        NearSplit best;
        bool sure = false; // best keeps the least curvature with any rounding
    };
    // Addends of the rows of the smaller child of a split.
    struct Added {
        Sum sum;
        int64_t total;
    };

    // Number of rows that go left, and whether any row lacks the feature.
    struct Divided {
        int32_t left;
        bool lacks;
    };

    void choose_features(const std::vector<int32_t> &features);
    int grow_leaves();
    int32_t next_leaf();
    Added take_rows(const uint32_t *which, int64_t n);
    void take_root(const uint32_t *which, int64_t n);
    void search(Leaf &leaf);
    void search_surely(Leaf &leaf);
    void leave(Leaf &leaf);
    bool may_split(int32_t n, int32_t depth) const;
    double value_of(const Sum &sum) const { return boost_.learning_rate * rule_->value(sum, {}); }
    bool keeps_curvature(const Leaf &leaf, const Sum &left, const Sum &right) const;
    bool gains(const Leaf &leaf, const Sum &left, double *gain) const;
    Divided divide(const Leaf &leaf, const Set *of, Set *left, Set *right) const;
    int32_t list(const Set *set) const;
    Added add(int32_t n) const;
    void split(int32_t number);
    void fill_children(int32_t n, Leaf &small, Leaf &large);
    void add_values(double *margins) const;
    int32_t take_slot();
    int64_t *histogram(int32_t slot) const {
        return pieces_[slot / together_]->data() + slot % together_ * rows_.histogram_size();
    }
    Set *set_of(size_t leaf) { return sets_.data() + leaf * rows_.words_of_set(); }
    const Set *set_of(size_t leaf) const { return sets_.data() + leaf * rows_.words_of_set(); }

    const tk_boost &boost_;
    const Bins &bins_;
    int64_t cancel_mark_;
    tusk_memory *memory_;
    NearRows rows_;
    std::vector<std::unique_ptr<Charged<int64_t>>> pieces_; // together_ histograms each
    int32_t together_ = 1;
    std::vector<int32_t> free_;
    std::vector<uint16_t> chosen_; // features, in the form of NearRule
    std::vector<int32_t> gaps_;    // the same; empty: no feature has missing values
    mutable std::vector<uint32_t> numbers_;

    // State of the growing tree.
    const Rule *rule_ = nullptr;
    NearRule near_;
    const Addend *addends_ = nullptr;
    std::vector<Leaf> leaves_;
    std::vector<Set> sets_; // of the rows of each leaf
    std::vector<int32_t> to_do_;
    bool all_ = false; // the number of leaves is unlimited
    std::vector<Made> made_;
};

} // namespace tusk
