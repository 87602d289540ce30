// Gradient-based one-side sampling (G. Ke et al., LightGBM, NIPS 2017, section 3 and algorithm 2).
//
// The rows of the largest |gradient * curvature| are drawn, a share of `top` of all, and a share
// of `other` of all among the others, whose gradients and curvatures then count (1 - top) / other
// times, as many as they stand for. So sums over drawn rows are those over all rows on average.
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
    int64_t n;     // how many
    double factor; // how many rows one of the others stands for
    std::vector<uint8_t>
        others; // of each row, 1: it is one of those that are drawn from the others
};

// What a row of the others may stand for at most.
double most_factor(OneSide rates, int64_t n);

// Draws rows and writes their numbers, ascending, to out. size: |gradient * curvature| of each
// row. keys: of sampling.hpp, so which rows are drawn does not depend on their order.
Drawn draw_one_side(const std::vector<double> &size, const std::vector<uint64_t> &keys,
                    OneSide rates, uint64_t seed, uint32_t *out);

// Multiplies what the drawn rows of the others add.
void amplify(const Drawn &drawn, const uint32_t *which, Addend *addends);

} // namespace tusk
