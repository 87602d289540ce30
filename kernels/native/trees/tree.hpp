// One tree, and how it grows.
#pragma once

#include <memory>
#include <vector>

#include "../shared/charged.hpp"
#include "../shared/pool.hpp"
#include "../shared/simd.hpp"
#include "split.hpp"

namespace tusk {

// Coded rows that go left: those up to a bin, and those of the bin of missing values, `also`.
struct Side {
    int16_t bin, also; // also -1: missing values go right
    int32_t set = -1;  // index of a set of bins that go left instead

    bool left(uint8_t code) const { return (code <= bin) | (code == also); }
};

// Nodes in preorder; parallel arrays of gain, rows and, for a split, side.
struct Tree {
    std::vector<tk_node> nodes;
    std::vector<float> gain;
    std::vector<int64_t> rows;
    std::vector<Side> side;
    std::vector<CodeSet> codes; // of the sides by level
    std::vector<double> sets;   // the same as levels, as in tk_forest_arrays

    // The tree's value for a coded row.
    double of(const uint8_t *row) const {
        int32_t at = 0;
        while (nodes[at].feature >= 0)
            at = goes_left(side[at], row[nodes[at].feature]) ? at + 1 : nodes[at].right;
        return nodes[at].value;
    }
    bool goes_left(Side one, uint8_t code) const {
        return one.set < 0 ? one.left(code) : codes[one.set].has(code);
    }
};

// A node of a growing tree, in the order of creation.
struct Made {
    Split split;
    int32_t left = -1, right = -1; // -1: a leaf
    int64_t rows = 0;
    double value = 0;
};

// Writes a tree whose root is made[0], its nodes in preorder. scale: of the rule, in whose weights
// gains are found.
void write_tree(const std::vector<Made> &made, const Bins &bins, double scale, Tree *out);

// The left side of a split, without the set of a category.
inline Side side_of(const Split &split, const Bins &bins) {
    int32_t missing = bins.values(split.feature);
    return {(int16_t)split.bin, (int16_t)(split.missing_left ? missing : -1)};
}

// The numbers of the rows that a tree grows on, which it sorts by leaf; both arrays have n items.
struct Order {
    uint32_t *which, *scratch;
    int64_t n;
};

// The n rows of a leaf, room for as many, and scratch memory.
struct LeafRows {
    uint32_t *which, *other;
    int64_t n;
    std::vector<uint64_t> *sides;
};
// Number of rows that go left, and whether all are in `other` now.
struct Halves {
    int64_t left;
    bool moved;
};

// The value of a leaf from the numbers of its rows, if not from its sums.
using LeafValue = Ref<double(const uint32_t *, int64_t)>;

// Grows the trees of one group. It keeps its memory from tree to tree. Cell: of histograms, Sum,
// or Addend for a group of at most BLOCK rows and one thread.
template <class Cell> class Grower {
public:
    // threads: for one tree. cancel_mark as in tk_pass. memory: the account of the histograms.
    Grower(const tk_boost &boost, const Bins &bins, int threads, int64_t cancel_mark,
           tusk_memory *memory);

    // Grows a tree on the rows of an order and adds its values to their margins, unless these are
    // NULL. own: NULL, or the values of leaves. out may be NULL. Returns a tk_code.
    int grow(const Rule &rule, const Rows &rows, const std::vector<int32_t> &features,
             const Order &order, const LeafValue *own, double *margins, Tree *out);
    // The seed of the features that are drawn for each split, if not all are.
    void draw_features_by(uint64_t seed) { seed_ = seed; }

    // Start of a tree that is a branch of another one: the number of its root there, by which
    // features are drawn, that of its second node, and the depth and limits of the root.
    struct Branch {
        int32_t node = 0, next = 1, depth = 0;
        Limits limits{};
    };
    // Grows a branch, whose nodes are in `made` afterwards. Returns a tk_code.
    int grow_branch(const Branch &branch, const Rule &rule, const Rows &rows,
                    const std::vector<int32_t> &features, const Order &order) {
        branch_ = branch;
        int code = grow(rule, rows, features, order, nullptr, nullptr, nullptr);
        branch_ = Branch{};
        return code;
    }
    const std::vector<Made> &made() const { return made_; }

private:
    // The slot of a leaf without a histogram, and of one whose searches add up its rows for the
    // features that they draw.
    static constexpr int32_t NO_SLOT = -1, BY_ROWS = -2;

    struct Leaf {
        int64_t begin, n; // in `which`, or in `scratch` if they are away
        bool away;
        int32_t node, depth, slot;
        Sum sum;
        Limits limits;
        Split best;
    };

    bool may_split(const Leaf &leaf) const;
    bool has_few_rows(const Leaf &leaf) const;
    Split best_of(const Leaf &leaf, const Cell *sums);
    const Cell *sums_of_drawn(const Leaf &leaf);
    bool is_pure(const Leaf &leaf) const;
    Split best_of_drawn(const Leaf &leaf);
    void search_both(Leaf &left, Leaf &right);
    int split_best();
    int split_all();
    void search(Leaf &leaf);
    void leave(Leaf &leaf);
    double value_of(const Leaf &leaf) const;
    void renew(const LeafValue &own);
    void split(Leaf &leaf);
    void fill_children(const Leaf &parent, Leaf &left, Leaf &right);
    int32_t take_slot();
    void give_back(int32_t slot);
    Halves partition(const Leaf &leaf);
    uint32_t *rows_of(const Leaf &leaf) const {
        return (leaf.away ? order_.scratch : order_.which) + leaf.begin;
    }
    void choose_features(const std::vector<int32_t> &features);
    uint64_t number_of(int32_t node) const {
        return (uint64_t)(node ? branch_.next + node - 1 : branch_.node);
    }
    // Cells of a histogram, including those that a search reads beyond the last bin.
    size_t histogram_size() const { return bins_.total() + LANES; }
    Cell *histogram(int32_t slot) {
        return sums_[slot / together_]->data() + slot % together_ * histogram_size();
    }
    void add_values(double *margins) const;

    const tk_boost &boost_;
    const Bins &bins_;
    int threads_;
    int64_t cancel_mark_;
    tusk_memory *memory_;
    std::vector<std::unique_ptr<Charged<Cell>>> sums_; // together_ histograms each
    int32_t together_;
    std::vector<int32_t> free_;
    int32_t own_slot_ = NO_SLOT; // for sums of few rows
    std::vector<Addend> blocks_;
    std::vector<uint64_t> sides_;
    std::vector<Leaf> leaves_;

    std::vector<Made> made_; // of the growing tree
    const Rule *rule_ = nullptr;
    const Rows *rows_ = nullptr;
    std::vector<int32_t> numbers_, categories_; // the tree's features
    Order order_{};
    uint64_t seed_ = 0;
    Branch branch_;
};

// Moves the rows that go left before the others; both keep their order. codes: the first row's of
// the split's feature, of rows that are d codes apart.
Halves partition_rows(const uint8_t *codes, int32_t d, Side side, const LeafRows &rows,
                      int threads);
Halves partition_rows(const uint8_t *codes, int32_t d, const CodeSet &side, const LeafRows &rows,
                      int threads);

} // namespace tusk
