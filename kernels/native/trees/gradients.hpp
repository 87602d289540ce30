// Gradients and curvatures of all rows at their margins.
#pragma once

#include "histogram.hpp"

namespace tusk {

// The labels of one group. positive: the label that counts as 1, for TK_LOGISTIC.
struct Labels {
    const tusk_group *group;
    int32_t objective;
    double positive;
};

// The margin of all rows that lowers the mean loss most.
double best_constant(const Labels &labels);

// Takes the loss of each row at its margin. Returns the mean loss, and unless addends is NULL what
// each row adds to histograms, in units that leave room for the sums over all rows.
double take_losses(const Labels &labels, const double *margins, int threads, Addend *addends,
                   Units *units);

} // namespace tusk
