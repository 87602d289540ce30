// Earlier trees from which boosting continues.
#pragma once

#include "../../shared/api.h"
#include "../api.h"

namespace tusk {

// Adds the values of trees for the rows of a group to their margins, an array of all rows for each
// output, in the order of growth, so that margins are those of their training bit for bit.
// cancel_mark as in tk_pass.
void add_started(const tk_started &from, const tusk_group &group, int64_t outputs, int threads,
                 int64_t cancel_mark, double *margins);

} // namespace tusk
