// A training's rows in memory, and its deadline.
#pragma once

#include <algorithm>
#include <chrono>

#include "inputs.hpp"

namespace tusk {

// Deadline of all trainings.
class Deadline {
public:
    explicit Deadline(double seconds = 0)
        : limited_(seconds > 0),
          end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(std::min(seconds, 1e9)))) {}
    bool over() const { return limited_ && Clock::now() >= end_; }

private:
    using Clock = std::chrono::steady_clock;
    bool limited_;
    Clock::time_point end_;
};

// The rows of a group in memory.
class Copied {
public:
    int take(tusk_memory *memory, const tusk_group &group, const Shape &shape, const Units &units,
             const Labels &labels, int64_t cancel_mark) {
        int64_t n = group.n_rows, width = shape.stride();
        bool own = group.extras & TUSK_WEIGHTS, weighs = own || labels.net->class_weight;
        int code = memory_.take(memory, n * (width + 1 + weighs));
        if (code)
            return code;
        float *x = memory_.data(), *y = x + n * width;
        weight_ = weighs ? y + n : nullptr;
        if (weighs && !own)
            std::fill_n(weight_, n, 1.0f);
        copy_rows(group, shape, units, labels, {x, y, own ? weight_ : nullptr}, cancel_mark);
        rows_ = {x, y, n, weight_, own ? total_weight(group) * units.weight : (double)n};
        return TK_OK;
    }
    // The sum of the weights, times those of the classes unless NULL.
    double total(const double *by_class) const {
        double sum = 0;
        for (int64_t i = 0; i < rows_.n; i++)
            sum += weight_[i] * (by_class ? by_class[(int64_t)rows_.y[i]] : 1);
        return sum;
    }
    // Multiplies the weights by those of the classes, and by a factor.
    void weigh(double factor, const double *by_class) {
        for (int64_t i = 0; i < rows_.n; i++)
            weight_[i] *= (float)(factor * (by_class ? by_class[(int64_t)rows_.y[i]] : 1));
        if (rows_.n)
            rows_.total = total(nullptr);
    }
    const Rows &rows() const { return rows_; }

private:
    Charged<float> memory_;
    float *weight_ = nullptr;
    Rows rows_{};
};

} // namespace tusk
