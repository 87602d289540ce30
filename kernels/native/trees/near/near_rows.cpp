// Prepares the rows of a small group.
#include "near_rows.hpp"

#include <algorithm>

namespace tusk {
namespace {

constexpr int32_t VECTOR = 16; // cells that are searched at once
// The largest number that a row may add, as a multiple of the mean.
constexpr int64_t UNEVEN = 16;

int bits_of(int64_t x) {
    return x ? 64 - __builtin_clzll((uint64_t)x) : 0;
}

int32_t most_bins(const Bins &bins) {
    int32_t most = 0;
    for (int32_t f = 0; f < bins.features(); f++)
        most = std::max(most, bins.count(f));
    return most;
}

int32_t stride_of(int32_t d) {
    return (d + VECTOR - 1) / VECTOR * VECTOR;
}

int64_t rounded(int64_t x, int shift) {
    return (x + ((INT64_C(1) << shift) >> 1)) >> shift;
}

} // namespace

bool NearRows::fits(int64_t n, const Bins &bins) {
    int32_t d = bins.features();
    return n <= MOST_NEAR_ROWS && d <= MOST_NEAR_FEATURES &&
           most_bins(bins) * stride_of(d) <= UINT16_MAX;
}

int NearRows::take(const Bins &bins, const uint8_t *codes, int64_t n, tusk_memory *memory) {
    n_ = n, d_ = bins.features(), stride_ = stride_of(d_), bins_ = most_bins(bins);
    size_t of_words = (size_t)words_of_set() * 64 * sizeof *words_;
    size_t of_columns = (size_t)words_of_set() * 64 * d_;
    size_t of_cells = (size_t)n * d_ * sizeof *cells_;
    if (int code = memory_.take(memory, of_words + of_columns + of_cells))
        return code;
    words_ = (int64_t *)memory_.data();
    columns_ = (uint8_t *)memory_.data() + of_words;
    cells_ = (uint16_t *)(columns_ + of_columns);
    std::fill_n(columns_, of_columns, (uint8_t)0);
    size_t length = of_columns / d_;
    for (int64_t row = 0; row < n; row++)
        for (int32_t f = 0; f < d_; f++) {
            uint8_t code = codes[row * d_ + f];
            cells_[row * d_ + f] = (uint16_t)(code * stride_ + f);
            columns_[f * length + row] = code;
        }
    return TK_OK;
}

bool NearRows::pack(const Addend *addends) {
    constexpr int64_t LOW = (INT64_C(1) << COUNT_SHIFT) - 1;
    const auto *pairs = (const int64_t *)addends;
    int64_t most_gradient = 0, most_curvature = 0, sizes = 0;
    sum_ = Sum{0, 0, n_};
    for (int64_t i = 0; i < n_; i++) {
        int64_t g = pairs[2 * i], size = g < 0 ? -g : g, h = pairs[2 * i + 1] & LOW;
        most_gradient = size > most_gradient ? size : most_gradient;
        most_curvature = h > most_curvature ? h : most_curvature;
        sum_.gradient += g, sum_.curvature += h, sizes += size;
    }
    if (most_gradient / UNEVEN > sizes / n_ || most_curvature / UNEVEN > sum_.curvature / n_)
        return false;
    int bits = bits_of(n_), of_row = 64 - 3 * bits; // of a gradient and a curvature
    packing_.count_bits = bits;
    packing_.curvature_bits = std::min(of_row / 2, 30 - bits) + bits;
    int of_gradient = std::min(of_row - of_row / 2, 31 - bits); // with its sign
    packing_.gradient_shift = std::max(0, bits_of(most_gradient) + 1 - of_gradient);
    packing_.curvature_shift =
        std::max(0, bits_of(most_curvature) - (packing_.curvature_bits - bits));
    total_ = 0;
    for (int64_t i = 0; i < n_; i++) {
        int64_t g = rounded(pairs[2 * i], packing_.gradient_shift);
        int64_t h = rounded(pairs[2 * i + 1] & LOW, packing_.curvature_shift);
        words_[i] = (int64_t)((uint64_t)g << packing_.gradient_at()) + (h << bits) + 1;
        total_ += words_[i];
    }
    return true;
}

} // namespace tusk
