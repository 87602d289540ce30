// Bins: a feature's value is replaced by the number of the interval that it lies in.
#pragma once

#include <cstdint>
#include <vector>

#include "api.h"

namespace tusk {

// Bin b of feature f has the values x with bound(b - 1) < x <= bound(b). The last bound of each
// feature is infinite.
struct Bins {
    std::vector<double> bound;  // feature by feature
    std::vector<int32_t> first; // (d + 1,) where the bounds of each feature begin

    int32_t features() const { return (int32_t)first.size() - 1; }
    int32_t count(int32_t f) const { return first[f + 1] - first[f]; }
    int32_t total() const { return first.back(); }
};

// Bounds of nearly equal numbers of rows, half-way between neighbouring values. They are exact for
// up to BIN_SAMPLE rows. Of larger groups a sample is read, chosen by a hash of the rows' content,
// so the bounds do not depend on the order of the rows.
constexpr int64_t BIN_SAMPLE = 200000;
constexpr int LEAST_IN_BIN = 3; // rows
Bins find_bins(const tusk_group &group, int most, int threads);

// The bins of all rows, shape (n_rows, d).
void code_rows(const tusk_group &group, const Bins &bins, int threads, uint8_t *out);

} // namespace tusk
