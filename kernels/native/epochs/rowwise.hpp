// Single-row steps on a narrow dense model, whose weights stay in registers. Each step depends on
// the one before it, so the latency of the chain from weights to weights sets the speed: one dot
// product, one derivative, one multiplication. Other work, such as the losses, is done later for
// many rows at once.
//
// With z = x - shift the margin is w.z + v_d, and the step of epoch.hpp on one row with derivative
// r is w -= step r scale^2 z, v_d -= step r.
#pragma once

#include "epoch.hpp"

namespace tusk {

inline bool is_rowwise(const tk_epoch *e, int64_t d) {
    bool single = e->batch_size == 1 && !(e->drawn && e->drawn->sizes);
    return single && d > 0 && d <= TILE;
}

// One thread's steps on group g of a pass, and their results.
struct RowSteps {
    const tk_pass *pass;
    const tk_epoch *epoch;
    int64_t g;
    const double *start; // initial weights and intercept, in coordinates of z
    double *shared;      // NULL, or the d weights and the intercept that threads share: read and
                         // written every few rows
    StepWeights weights;
    alignas(64) double w[TILE] = {};   // the last iterate, padded
    alignas(64) double sum[TILE] = {}; // sum of the iterates
    double v_d = 0, sum_d = 0, loss = 0;
    int64_t n = 0; // steps made
};

// Makes one step for each row of runs[first] to runs[last - 1]. `row` is the number of the first
// row in the epoch.
void walk_rows(RowSteps &steps, const Squared &loss, const std::vector<Run> &runs, size_t first,
               size_t last, int64_t row);
void walk_rows(RowSteps &steps, const Logistic &loss, const std::vector<Run> &runs, size_t first,
               size_t last, int64_t row);
void walk_rows(RowSteps &steps, const Hinge &loss, const std::vector<Run> &runs, size_t first,
               size_t last, int64_t row);
inline void walk_rows(RowSteps &steps, const std::vector<Run> &runs, size_t first, size_t last,
                      int64_t row) {
    with_step_loss(Loss(steps.pass, steps.g),
                   [&](const auto &loss) { walk_rows(steps, loss, runs, first, last, row); });
}

} // namespace tusk
