// Passes over the rows of a group: an epoch of steps, or the sum of the losses.
#pragma once

#include "steps.hpp"

namespace tusk::fm {

// A group's rows and its machine; threads: number that share its weights in an epoch.
struct Training {
    const tk_pass *pass;
    const tk_fm *fm;
    Rows rows;
    Units *units;
    Machine *machine;
    int threads;
    double rate; // learning rate of the epoch
    int ending() const { return tusk::ending(pass->cancel_mark, pass->deadline); }
};

// Makes a step for each row in the order of an epoch, from 0 on, and sums their weighted losses
// before the steps, in the units of the training. Returns a tk_code; TK_OUT_OF_TIME if some rows
// were left.
int run_epoch(const Training &t, int64_t number, double *loss);
// The sum of the losses at the current weights, optionally with their penalties. Bits do not
// depend on threads.
int sum_losses(const Training &t, const Rows &rows, bool penalties, int threads, double *loss);

} // namespace tusk::fm
