// Passes over the rows of a group: an epoch of steps, or the sum of the losses.
#pragma once

#include "steps.hpp"

namespace tusk::fm {

// A group's rows and its machine; threads: that share its weights in an epoch.
struct Training {
    const tk_pass *pass;
    const tk_fm *fm;
    Rows rows;
    Units *units;
    Machine *machine;
    int threads;
    double rate; // the length of steps
    int ending() const { return tusk::ending(pass->cancel_mark, pass->deadline); }
};

// Steps over all rows in the order of an epoch, from 0 on, and sums their losses before the steps,
// by their weights, in the units of the training. A tk_code; TK_OUT_OF_TIME if some rows were
// left.
int run_epoch(const Training &t, int64_t number, double *loss);
// The sum of the losses, and with `penalties` of their penalties, as the weights are. Bits do not
// depend on threads.
int sum_losses(const Training &t, const Rows &rows, bool penalties, int threads, double *loss);

} // namespace tusk::fm
