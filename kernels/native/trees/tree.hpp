// One tree, and how it grows.
#pragma once

#include <memory>
#include <vector>

#include "../shared/charged.hpp"
#include "split.hpp"

namespace tusk {

// Which coded rows go left: those up to a bin, and those of the bin of missing values, `also`.
struct Side {
    int16_t bin, also; // also -1: missing values go right

    bool left(uint8_t code) const { return (code <= bin) | (code == also); }
};

// Nodes in preorder; beside each its gain, its rows and, of a split, its side.
struct Tree {
    std::vector<tk_node> nodes;
    std::vector<float> gain;
    std::vector<int64_t> rows;
    std::vector<Side> side;

    // What the tree adds to the margin of a coded row.
    double of(const uint8_t *codes) const {
        int32_t at = 0;
        while (nodes[at].feature >= 0)
            at = side[at].left(codes[nodes[at].feature]) ? at + 1 : nodes[at].right;
        return nodes[at].value;
    }
};

// The numbers of a group's rows, which a tree sorts by leaf; both arrays have n items.
struct Order {
    uint32_t *which, *scratch;
    int64_t n;
};

// Grows the trees of one group. It keeps its memory from tree to tree. Cell: of histograms, Sum,
// or Addend of a group of at most BLOCK rows and one thread.
template <class Cell> class Grower {
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
    Side side_of(const Split &split) const;
    Cell *histogram(int32_t slot) { return sums_[slot]->data(); }
    void write(Tree *out) const;
    void add_values(double *margins) const;

    const tk_boost &boost_;
    const Bins &bins_;
    int threads_;
    int64_t cancel_mark_;
    tusk_memory *memory_;
    std::vector<std::unique_ptr<Charged<Cell>>> sums_; // a histogram per slot
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

// Moves the rows that go left before the others; both keep their order. codes: the first row's of
// the split's feature, of rows of d codes. Returns how many go left.
int64_t partition_rows(const uint8_t *codes, int32_t d, Side side, uint32_t *which,
                       uint32_t *scratch, int64_t n, int threads);

} // namespace tusk
