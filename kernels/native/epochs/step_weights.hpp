// The weights of a group's rows for stochastic steps: divided by their mean, so that the mean over
// uniformly drawn rows estimates the gradient of the weighted mean loss without bias, and steps
// have the same size as without weights.
#pragma once

#include <atomic>
#include <vector>

#include "api.h"

namespace tusk {

// Weights that several threads read and write without a lock. Relaxed atomics avoid data races and
// compile to plain moves.

template <class W> inline W read_shared(W &x) {
    return std::atomic_ref<W>(x).load(std::memory_order_relaxed);
}
template <class W> inline void write_shared(W &x, W v) {
    std::atomic_ref<W>(x).store(v, std::memory_order_relaxed);
}

class StepWeights {
public:
    StepWeights() = default; // all rows weigh 1
    StepWeights(const tk_pass *pass, int64_t g, const tk_epoch *e = nullptr)
        : shape_(tusk_shape_of(&pass->groups[g])) {
        if (any())
            inverse_ = 1 / (e && e->rows_of_all ? e->mean_weight : mean_of(pass->groups[g]));
    }

    bool any() const { return shape_.extras & TUSK_WEIGHTS; }

    // The weights of a segment's rows, to be multiplied by inverse(); NULL: they are 1.
    const double *of(const tusk_segment *s) const { return tusk_extra(s, shape_, TUSK_WEIGHTS); }
    double inverse() const { return inverse_; }

private:
    double mean_of(const tusk_group &group) const {
        double sum = 0;
        int64_t left = group.n_rows;
        for (const tusk_segment *s = group.head; s && left > 0; s = s->next) {
            int64_t here = left < s->n_rows ? left : s->n_rows;
            const double *weight = of(s);
            for (int64_t i = 0; i < here; i++)
                sum += weight[i];
            left -= here;
        }
        return sum / (double)(group.n_rows - left);
    }

    tusk_shape shape_ = {};
    double inverse_ = 1;
};

// The step weights of each group.
inline std::vector<StepWeights> step_weights(const tk_pass *pass) {
    std::vector<StepWeights> found;
    for (int64_t g = 0; g < pass->n_groups; g++)
        found.emplace_back(pass, g);
    return found;
}

} // namespace tusk
