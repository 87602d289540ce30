// The rows of a small group, in the forms for growing its trees. A row's addend in a histogram is
// rounded to one word: from the highest bit the gradient, the curvature, and a count of one. So a
// histogram is half as large as one of Addends, and one addition adds a row to a bin. Only the
// choice of splits reads rounded numbers, of 17 bits or more (Shi et al., Quantized training of
// gradient boosting decision trees, NeurIPS 2022, round to 2 to 5 bits); the sums, gains and
// values of nodes are those of Addends.
#pragma once

#include "../../shared/charged.hpp"
#include "../histogram.hpp"

namespace tusk {

constexpr int64_t MOST_NEAR_ROWS = 1023;
constexpr int32_t MOST_NEAR_FEATURES = 256;

// Layout of sums of words.
struct Packing {
    int gradient_shift, curvature_shift; // the unit is 2^shift of an Addend
    int count_bits, curvature_bits;      // of sums

    int gradient_at() const { return count_bits + curvature_bits; }
    int32_t gradient(int64_t sum) const { return (int32_t)(sum >> gradient_at()); }
    int32_t curvature(int64_t sum) const {
        return (int32_t)(sum >> count_bits & ((INT64_C(1) << curvature_bits) - 1));
    }
    int32_t count(int64_t sum) const { return (int32_t)(sum & ((INT64_C(1) << count_bits) - 1)); }
};

class NearRows {
public:
    // Whether a group of n rows is small enough.
    static bool fits(int64_t n, const Bins &bins);

    // codes: (n, d) bins. Returns a tk_code.
    int take(const Bins &bins, const uint8_t *codes, int64_t n, tusk_memory *memory);
    // Rounds the addends of all rows. False: a few rows add so much more than the others that too
    // few digits would be left for these.
    bool pack(const Addend *addends);

    int64_t n() const { return n_; }
    int32_t features() const { return d_; }
    int64_t words_of_set() const { return (n_ + 63) / 64; } // of 64 rows each
    // Cells of a histogram: bin by bin, one for each feature, and some that stay 0, so that whole
    // vectors may be read.
    int32_t stride() const { return stride_; }
    int32_t bins() const { return bins_; } // of the feature that has most; even
    size_t histogram_size() const { return (size_t)stride_ * bins_; }

    const Packing &packing() const { return packing_; }
    // The sums over all rows, exact and rounded.
    const Sum &sum() const { return sum_; }
    int64_t total() const { return total_; }
    const int64_t *words() const { return words_; }
    // (d,) numbers of cells of one row.
    const uint16_t *cells(size_t row) const { return cells_ + row * d_; }
    // The bins of one feature of all rows.
    const uint8_t *column(int32_t f) const { return columns_ + (size_t)f * 64 * words_of_set(); }

private:
    int64_t n_ = 0;
    int32_t d_ = 0, stride_ = 0, bins_ = 0;
    Packing packing_{};
    Sum sum_{};
    int64_t total_ = 0;
    Charged<char> memory_;
    int64_t *words_ = nullptr;
    uint16_t *cells_ = nullptr;
    uint8_t *columns_ = nullptr;
};

} // namespace tusk
