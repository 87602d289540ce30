// Bins: a feature's value is replaced by the index of its interval.
#pragma once

#include <cstdint>
#include <vector>

#include "api.h"

namespace tusk {

// Bin b of feature f has the values x with bound(b - 1) < x <= bound(b). The last of these bounds
// is infinite. Missing values (NaN) have the next number, which is a separate bin if the training
// rows have some.
struct Bins {
    std::vector<double> bound;    // concatenated by feature; NaN for a bin of missing values
    std::vector<int32_t> first;   // (d + 1,) offset of the bounds of each feature
    std::vector<uint8_t> missing; // (d,) 1: the last bin has the missing values
    // (d,) 1: a category. `bound` has the level of each bin, rising, and the last bin has all
    // other levels and missing values. Empty: there is none.
    std::vector<uint8_t> by_level;

    int32_t features() const { return (int32_t)first.size() - 1; }
    int32_t count(int32_t f) const { return first[f + 1] - first[f]; }
    int32_t values(int32_t f) const { return count(f) - missing[f]; }
    int32_t total() const { return first.back(); }
    bool category(int32_t f) const { return !by_level.empty() && by_level[f]; }
};

// Least number of rows of a bin, and the usual one if there are enough bins.
struct BinRows {
    int64_t least, usual;
};
// The limits for a group of n rows.
BinRows rows_in_bins(const tk_boost &boost, int64_t n);

// Bounds of nearly equal numbers of rows, half-way between neighbouring values, in the widest gaps
// nearby. They are exact for up to BIN_SAMPLE rows. Of larger groups a sample is read, chosen by a
// hash of the rows' content, so the bounds do not depend on the order of the rows.
constexpr int64_t BIN_SAMPLE = 200000;
// by_level: (d,) 1: a category; or NULL. Bounds in `boost` are used as they are, except for those
// of categories.
Bins find_bins(const tusk_group &group, const tk_boost &boost, const uint8_t *by_level,
               int threads);

// The rows of a part of a group that determine the bounds of the whole group, and the values of a
// feature that are not missing. all_rows: of the group.
std::vector<const void *> sampled(const tusk_group &group, int64_t all_rows);
int64_t copy_values(const std::vector<const void *> &rows, int32_t kind, int32_t f, double *out);
// The finite bounds of a feature; values are sorted.
std::vector<double> bounds_by(std::vector<double> &values, int most, const BinRows &rows);
// (d,) 1: some rows lack the feature.
std::vector<uint8_t> missing_in(const tusk_group &group);

constexpr int64_t LARGE = 1 << 21; // cells of a group that is worth several threads

// The bins of all rows, shape (n_rows, d). spends: the features are not read again, so a large
// group's memory is freed piece by piece; small groups share pages.
void code_rows(const tusk_group &group, const Bins &bins, int threads, uint8_t *out, bool spends);

} // namespace tusk
