// Products of small matrices of floats, held in registers tile by tile.
#pragma once

#include <cstdint>

#include "floats.hpp"

namespace tusk {

// The left factor: its item (i, k) is at[i * row + k * column].
struct Left {
    const float *at;
    int64_t row, column;
};

// The sizes of a product: c (m, n) = l (m, inner) r (inner, n). n is a multiple of PAD, and rows
// of r and c are n apart.
struct Sizes {
    int64_t m, inner, n;
};

// The initial value of a product: 0, a row for all rows, or c itself.
enum class Start { zero, row, itself };
void multiply(const Left &l, const float *r, const Sizes &sizes, float *c, Start start,
              const float *row = nullptr);

} // namespace tusk
