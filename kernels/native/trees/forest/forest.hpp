// Forests: the trees of one group, earlier trees, and the random draws of rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "../../shared/api.h"
#include "../../shared/telling/progress.hpp"
#include "../api.h"
#include "../sampling.hpp"
#include "../tree.hpp"

namespace tusk {

struct Forest {
    std::vector<double> base; // a margin for each class of more than two, or one
    double base_loss = 0;
    std::vector<Tree> trees;
    std::vector<double> loss, held; // mean, after each iteration

    int64_t outputs() const { return (int64_t)base.size(); }
};

// Earlier trees from which boosting continues.

// Adds the values of trees for the rows of a group to their margins, an array of all rows for each
// output, in the order of growth, so that margins are those of their training bit for bit.
// cancel_mark as in tk_pass.
void add_started(const tk_started &from, const tusk_group &group, int64_t outputs, int threads,
                 int64_t cancel_mark, double *margins);

// The rows that a tree of a random forest draws, by their indices in the order of their keys.

// Largest number of draws of a row, for which sums over drawn rows have room.
constexpr double MOST_DRAWN = 32;

// Number of draws of a tree from n rows.
inline int64_t drawn_of(double share, int64_t n) {
    return std::clamp((int64_t)std::ceil(share * (double)n), INT64_C(1), n);
}

// The index of draw i among n rows.
inline size_t drawn_place(uint64_t seed, int64_t i, int64_t n) {
    uint64_t random = mixed(seed + UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1));
    return (size_t)((unsigned __int128)random * (uint64_t)n >> 64);
}

// Random forests: averages of trees, each grown on a draw of the rows.

// One group to grow a forest for.
struct Bagged {
    const tk_pass &pass;
    const tk_boost &boost;
    int64_t group;
    int threads;
    tusk_memory *memory;
    const Progress &progress;
};

// L. Breiman, Random forests, Machine Learning 45, 2001. A tree grows on as many rows as there
// are, drawn with replacement, and each split is the best one of a few drawn features. The margins
// of a forest are the means of its leaves; for classes these are shares, minus 1/2 for two
// classes, so that the margin's sign is the class. A forest's losses are out of bag, those of rows
// by the trees that did not draw them. Returns a tk_code.
int grow_forest(const Bagged &job, Forest *out);

} // namespace tusk

struct tk_forests {
    std::vector<tusk::Forest> of;
};
