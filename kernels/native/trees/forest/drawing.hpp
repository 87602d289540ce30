// The rows that a tree of a random forest draws, by their indices in the order of their keys.
#pragma once

#include <algorithm>
#include <cmath>

#include "../sampling.hpp"

namespace tusk {

// Largest number of draws of a row, for which sums over drawn rows have room.
constexpr double MOST_DRAWN = 32;

// Number of draws of a tree from n rows.
inline int64_t drawn_of(double share, int64_t n) {
    return std::clamp((int64_t)std::ceil(share * (double)n), INT64_C(1), n);
}

// The index of draw i among n rows.
inline size_t drawn_place(uint64_t seed, int64_t i, int64_t n) {
    uint64_t random = mixed(seed + UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1));
    return (size_t)((unsigned __int128)random * (uint64_t)n >> 64);
}

} // namespace tusk
