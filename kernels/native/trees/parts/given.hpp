// Callers' arrays for rows that lie in parts.
#pragma once

#include <algorithm>

#include "../losses/gradients.hpp"
#include "../sampling.hpp"
#include "../tree.hpp"

namespace tusk {

inline Bins bins_from(const tk_bins &given) {
    size_t d = (size_t)given.features, total = (size_t)given.first[d];
    Bins bins;
    bins.bound.assign(given.bound, given.bound + total);
    bins.first.assign(given.first, given.first + d + 1);
    bins.missing.assign(given.missing, given.missing + d);
    if (given.by_level)
        bins.by_level.assign(given.by_level, given.by_level + d);
    return bins;
}

inline Weights weights_from(const tk_extent &extent) {
    return {extent.total, extent.most, extent.room, extent.unit};
}
inline Widest widest_from(const tk_extent &extent) {
    return {extent.derivative, extent.curvature};
}

inline Scales scales_from(const tk_extent &extent) {
    return {extent.least, extent.greatest, extent.most};
}

inline Side side_from(const tk_side &side) {
    return {side.bin, side.also, side.set};
}
inline CodeSet set_from(const uint64_t *words) {
    CodeSet set;
    std::copy_n(words, 4, set.words);
    return set;
}

} // namespace tusk
