// One tree, and how it grows.
#pragma once

#include <memory>
#include <vector>

#include "../shared/charged.hpp"
#include "split.hpp"

namespace tusk {

// Nodes in preorder; beside each its gain, its rows and, of a split, its bin.
struct Tree {
    std::vector<tk_node> nodes;
    std::vector<float> gain;
    std::vector<int64_t> rows;
    std::vector<uint8_t> bin;

    // What the tree adds to the margin of a coded row.
    double of(const uint8_t *codes) const {
        int32_t at = 0;
        while (nodes[at].feature >= 0)
            at = codes[nodes[at].feature] <= bin[at] ? at + 1 : nodes[at].right;
        return nodes[at].value;
    }
};

// The numbers of a group's rows, which a tree sorts by leaf; both arrays have n items.
struct Order {
    uint32_t *which, *scratch;
    int64_t n;
};

// Grows the trees of one group. It keeps its memory from tree to tree.
class Grower {
public:
    // threads: for one tree. cancel_mark as in tk_pass. memory: the account of the histograms.
    Grower(const tk_boost &boost, const Bins &bins, int threads, int64_t cancel_mark,
           tusk_memory *memory);

    // Grows a tree on all rows and adds its values to their margins. Returns a tk_code.
    int grow(const Rule &rule, const Rows &rows, const std::vector<int32_t> &features,
             const Order &order, double *margins, Tree *out);

private:
    struct Leaf {
        int64_t begin, n; // in `which`
        int32_t node, depth, slot;
        Sum sum;
        Split best;
    };

    bool may_split(const Leaf &leaf) const;
    void search(Leaf &leaf);
    void split(Leaf &leaf);
    void fill_children(const Leaf &parent, Leaf &left, Leaf &right);
    int32_t take_slot();
    Sum *histogram(int32_t slot) { return sums_[slot]->data(); }
    void write(Tree *out) const;
    void add_values(double *margins) const;

    const tk_boost &boost_;
    const Bins &bins_;
    int threads_;
    int64_t cancel_mark_;
    tusk_memory *memory_;
    std::vector<std::unique_ptr<Charged<Sum>>> sums_; // a histogram per slot
    std::vector<int32_t> free_;
    std::vector<Addend> blocks_;
    std::vector<Leaf> leaves_;

    // Of the tree that grows: nodes in the order of their making.
    struct Made {
        Split split;
        int32_t left = -1, right = -1; // -1: a leaf
        int64_t rows = 0;
        double value = 0;
    };
    std::vector<Made> made_;
    const Rule *rule_ = nullptr;
    const Rows *rows_ = nullptr;
    const std::vector<int32_t> *features_ = nullptr;
    Order order_{};
};

// Moves the rows whose code of a feature is at most `bin` before the others; both keep their
// order. Returns how many they are.
int64_t partition_rows(const uint8_t *codes, int32_t d, const Split &split, uint32_t *which,
                       uint32_t *scratch, int64_t n, int threads);

} // namespace tusk
