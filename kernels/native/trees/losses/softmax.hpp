// Losses of more than two classes: log sum_k exp(m_k) - m_y, with a margin per class.
//
// Its curvature for one margin is p (1 - p), which LightGBM takes K / (K - 1) times as large
// (Friedman, Greedy Function Approximation, 2001, algorithm 6).
#pragma once

#include "../../shared/charged.hpp"
#include "gradients.hpp"

namespace tusk {

// Losses of the rows of one group; margins are an array of all rows for each class.
class ClassLosses {
public:
    // classes: (k,) labels, rising. Returns a tk_code.
    int take(tusk_memory *memory, const tusk_group &group, const double *classes, int64_t k);
    void make_room(double room) { weights_.room = room; }
    // Uses the weights of more rows than these.
    void weigh(const Weights &all) { weights_ = all; }
    // The weights of the rows of each class. out: (k,).
    void sums(double *out) const;
    // The logarithms of the classes' shares of the weights. out: (k,).
    void bases(double *out) const;
    static double base_of(double sum, double total);
    static Units units_for(const Weights &weights);
    // The mean loss; keeps the logarithms of the sums over the classes for add().
    double losses(const double *margins, int threads);
    // Each row's addend in the trees of one class, by the last call of losses().
    void addends(const double *margins, int64_t of, int threads, Addend *out, Units *units) const;

private:
    int64_t n_ = 0, k_ = 0;
    Weights weights_{};
    const double *weight_of_ = nullptr; // of each row; NULL: all weigh 1
    Charged<int32_t> place_;            // index of a row's class
    Charged<double> sum_, weight_;
};

} // namespace tusk
