// Random forests: averages of trees, each grown on a draw of the rows.
#pragma once

#include "../../shared/telling/progress.hpp"
#include "forest.hpp"

namespace tusk {

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
