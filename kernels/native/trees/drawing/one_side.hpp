// Gradient-based one-side sampling (G. Ke et al., LightGBM, NIPS 2017, section 3 and algorithm 2).
// The rows with the largest |gradient * curvature| are drawn, a fraction `top` of all, and a
// fraction `other` of all among the others, whose gradients and curvatures then count (1 - top) /
// other times, as many as they represent. So sums over drawn rows are those over all rows on
// average.
#pragma once

#include <cstdint>
#include <vector>

#include "../histogram.hpp"

namespace tusk {

struct OneSide {
    double top, other; // shares of all rows
};

// The rows that a tree grows on.
struct Drawn {
    int64_t n;                   // number of rows
    double factor;               // number of rows that one of the others represents
    std::vector<uint8_t> others; // of each row, 1: it was drawn from the others
};

// Largest number of rows that one of the others may represent.
double most_factor(OneSide rates, int64_t n);

// Draws rows and writes their numbers, ascending, to out. size: |gradient * curvature| of each
// row. keys: from sampling.hpp, so the drawn rows do not depend on their order.
Drawn draw_one_side(const std::vector<double> &size, const std::vector<uint64_t> &keys,
                    OneSide rates, uint64_t seed, uint32_t *out);

// Multiplies the addends of the drawn rows of the others.
void amplify(const Drawn &drawn, const uint32_t *which, Addend *addends);

} // namespace tusk
