// What a training has in memory of its rows, and when it ends.
#pragma once

#include <algorithm>
#include <chrono>

#include "inputs.hpp"

namespace tusk {

// When all training ends.
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
        int code = memory_.take(memory, n * (width + 1));
        if (code)
            return code;
        float *x = memory_.data(), *y = x + n * width;
        copy_rows(group, shape, units, labels, {x, y}, cancel_mark);
        rows_ = {x, y, n, nullptr, (double)n};
        return TK_OK;
    }
    // weight: of each class.
    void weigh(const float *weight) {
        rows_.weight = weight;
        rows_.total = 0;
        for (int64_t i = 0; i < rows_.n; i++)
            rows_.total += weight[(int64_t)rows_.y[i]];
    }
    const Rows &rows() const { return rows_; }

private:
    Charged<float> memory_;
    Rows rows_{};
};

} // namespace tusk
