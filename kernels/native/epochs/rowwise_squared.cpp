#include "rowwise_walk.hpp"

namespace tusk {

void walk_rows(RowSteps &steps, const Squared &exact, const std::vector<Run> &runs, size_t first,
               size_t last, int64_t row) {
    walk_any(steps, exact, runs, first, last, row);
}

} // namespace tusk
