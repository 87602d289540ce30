// The weights of a group's rows for stochastic steps: divided by their mean, so that the mean over
// uniformly drawn rows estimates the gradient of the weighted mean loss without bias, and steps
// have the same size as without weights.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <new>
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

// An allocator for weights that rows look up in no order. With pages of the usual size, a model of
// a million features exceeds the processor's table of pages, and most look-ups search it.
template <class W> struct InLargePages {
    using value_type = W;
    static constexpr size_t PAGE = 2 << 20;

    InLargePages() = default;
    template <class Other> InLargePages(const InLargePages<Other> &) {}

    W *allocate(size_t n) {
        const size_t bytes = n * sizeof(W);
        if (bytes < PAGE)
            return std::allocator<W>().allocate(n);
        const size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
        void *p = ::operator new(whole, std::align_val_t(PAGE));
#if defined(MADV_HUGEPAGE)
        madvise(p, whole, MADV_HUGEPAGE); // where it is refused, pages are small
#endif
        return (W *)p;
    }
    void deallocate(W *p, size_t n) {
        if (n * sizeof(W) < PAGE)
            std::allocator<W>().deallocate(p, n);
        else
            ::operator delete(p, std::align_val_t(PAGE));
    }
    template <class Other> bool operator==(const InLargePages<Other> &) const { return true; }
};
template <class W> using LookedUp = std::vector<W, InLargePages<W>>;

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
