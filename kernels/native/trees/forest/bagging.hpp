// Random forests: trees that are grown on draws of the rows, each by itself, and averaged.
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
// are, drawn with replacement, and each split is the best one of a few features that are drawn.
// The margins of a forest are the means of its leaves; of classes these are shares, of which 1/2
// is taken for two classes, so that the margin's sign is the class. A forest's losses are those of
// rows by the trees that did not draw them, out of bag. Returns a tk_code.
int grow_forest(const Bagged &job, Forest *out);

} // namespace tusk
