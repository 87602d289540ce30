// The rows of a part by the leaves of the growing tree.
#pragma once

#include <unordered_map>

#include "../../shared/charged.hpp"
#include "given.hpp"

namespace tusk {

// The leaf of a coded row, as a node of a finished tree.
inline int32_t leaf_of(const uint8_t *row, const tk_node *nodes, const tk_side *sides,
                       const uint64_t *sets) {
    int32_t at = 0;
    while (nodes[at].feature >= 0) {
        const tk_side &side = sides[at];
        uint8_t code = row[nodes[at].feature];
        bool left = side.set < 0 ? side_from(side).left(code)
                                 : sets[4 * side.set + (code >> 6)] >> (code & 63) & 1;
        at = left ? at + 1 : nodes[at].right;
    }
    return at;
}

// A range of the array of row numbers.
struct Range {
    int64_t begin, n;
};

class Leaves {
public:
    // most: largest count of row numbers. Returns a tk_code.
    int take(tusk_memory *memory, size_t most) {
        int code = which_.take(memory, most);
        return code ? code : scratch_.take(memory, most);
    }
    uint32_t *which() const { return which_.data(); }
    uint32_t *scratch() const { return scratch_.data(); }

    // The first n numbers in `which` are leaf 0.
    void begin(int64_t n) { of_ = {{0, Range{0, n}}}; }
    bool has(int32_t leaf) const { return of_.count(leaf); }
    Range rows(int32_t leaf) const { return of_.at(leaf); }

    // codes: (n, d) of all rows.
    void divide(const tk_part_split &split, const uint8_t *codes, int32_t d, int threads) {
        Range range = of_.at(split.leaf);
        uint32_t *which = which_.data() + range.begin, *scratch = scratch_.data() + range.begin;
        LeafRows rows{which, scratch, range.n, &sides_};
        codes += split.feature;
        auto [n_left, moved] =
            split.by_level ? partition_rows(codes, d, set_from(split.set), rows, threads)
                           : partition_rows(codes, d, side_from(split.side), rows, threads);
        if (moved)
            std::copy_n(scratch, range.n, which);
        of_[split.left] = {range.begin, n_left};
        of_[split.right] = {range.begin + n_left, range.n - n_left};
    }

private:
    Charged<uint32_t> which_, scratch_;
    std::vector<uint64_t> sides_; // of the rows of a leaf that is divided
    std::unordered_map<int32_t, Range> of_;
};

} // namespace tusk
