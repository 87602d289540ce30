// The trees of one group.
#pragma once

#include <vector>

#include "../tree.hpp"

namespace tusk {

struct Forest {
    std::vector<double> base; // a margin for each class of more than two, or one
    double base_loss = 0;
    std::vector<Tree> trees;
    std::vector<double> loss, held; // mean, after each iteration

    int64_t outputs() const { return (int64_t)base.size(); }
};

} // namespace tusk

struct tk_forests {
    std::vector<tusk::Forest> of;
};
