// The numbers of a factorization machine in training. A feature has a block of floats: its vector,
// padded to vectors of eight, then w, the sum of squared steps of w and that of the vector. Up to
// rank 8 a block is one cache line.
#pragma once

#include <cstdint>

#include "rows.hpp"

namespace tusk::fm {

using v8f = float __attribute__((vector_size(32)));
constexpr int WIDE = 8;            // floats of a vector
constexpr int LINE = 16;           // floats of a cache line
constexpr float FIRST_SQUARES = 1; // initial sums of squares, so that first steps are at most the
                                   // rate times the gradient

enum Behind { LINEAR, LINEAR_SQUARES, FACTOR_SQUARES, N_BEHIND };

class Machine {
public:
    Machine() = default;
    Machine(const tk_fm &fm, int64_t d)
        : d_(d), rank_(fm.rank), wides_((fm.rank + WIDE - 1) / WIDE),
          stride_((wides_ * WIDE + N_BEHIND + LINE - 1) / LINE * LINE) {}

    int take(tusk_memory *memory) { return floats_.take(memory, size()); }
    int64_t size() const { return d_ * stride_; }
    int64_t features() const { return d_; }
    int64_t stride() const { return stride_; }
    int rank() const { return rank_; }
    int wides() const { return wides_; }
    float *block(int64_t feature) const { return floats_.data() + feature * stride_; }
    float *behind(int64_t feature) const { return block(feature) + wides_ * WIDE; }

    float bias = 0, bias_squares = FIRST_SQUARES;

private:
    int64_t d_ = 0;
    int rank_ = 0, wides_ = 0;
    int64_t stride_ = 0;
    Charged<float> floats_;
};

// Draws the vectors of features that rows have; all other numbers are 0.
void draw(Machine &m, const tk_fm &fm, const Units &u, int threads);
// Writes the numbers in the caller's units, (d, 1 + rank). Returns the intercept.
double write(const Machine &m, const Units &u, int threads, double *numbers);

} // namespace tusk::fm
