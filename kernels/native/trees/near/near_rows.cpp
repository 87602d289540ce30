// Prepares the rows of a small group.
#include "near_rows.hpp"

#include <algorithm>

namespace tusk {
namespace {

constexpr int32_t VECTOR = 16; // cells searched at once
// The largest addend of a row, as a multiple of the mean.
constexpr int64_t UNEVEN = 16;
// Histograms have the same number of bins for each feature. They may have FEW_CELLS cells, or
// MOST_PADDED times as many as there are bins.
constexpr int32_t FEW_CELLS = 8192, MOST_PADDED = 4;

constexpr int64_t CURVATURE = (INT64_C(1) << COUNT_SHIFT) - 1; // its bits of an Addend

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

// The largest gradient and curvature of any row, and the sum of absolute gradients.
struct Most {
    int64_t gradient = 0, curvature = 0, sizes = 0;
};

Sum add_up(const Addend *addends, int64_t n, Most *most) {
    Sum sum{0, 0, n};
    Most found;
    const auto *words = (const int64_t *)addends; // compilers make vectors of words
    for (int64_t i = 0; i < n; i++) {
        int64_t g = words[2 * i], h = words[2 * i + 1] & CURVATURE, size = g < 0 ? -g : g;
        found.gradient = size > found.gradient ? size : found.gradient;
        found.curvature = h > found.curvature ? h : found.curvature;
        found.sizes += size, sum.gradient += g, sum.curvature += h;
    }
    *most = found;
    return sum;
}

// Returns the sum of the words.
int64_t write_words(const Addend *addends, int64_t n, const Packing &packing, int64_t *words) {
    int64_t half_gradient = (INT64_C(1) << packing.gradient_shift) >> 1;
    int64_t half_curvature = (INT64_C(1) << packing.curvature_shift) >> 1;
    const int at = packing.gradient_at(), bits = packing.count_bits;
    const int gradient_shift = packing.gradient_shift, curvature_shift = packing.curvature_shift;
    const auto *of_rows = (const int64_t *)addends;
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t g = (of_rows[2 * i] + half_gradient) >> gradient_shift;
        int64_t h = ((of_rows[2 * i + 1] & CURVATURE) + half_curvature) >> curvature_shift;
        int64_t word = (int64_t)((uint64_t)g << at) + (h << bits) + 1;
        words[i] = word, total += word;
    }
    return total;
}

} // namespace

bool NearRows::fits(int64_t n, const Bins &bins) {
    int32_t d = bins.features();
    int32_t cells = (most_bins(bins) + 1) * stride_of(d);
    return n > 0 && n <= MOST_NEAR_ROWS && d <= MOST_NEAR_FEATURES && cells <= UINT16_MAX &&
           cells <= std::max(FEW_CELLS, MOST_PADDED * bins.total());
}

int NearRows::take(const Bins &bins, const uint8_t *codes, int64_t n, tusk_memory *memory) {
    n_ = n, d_ = bins.features(), stride_ = stride_of(d_), bins_ = (most_bins(bins) + 1) & ~1;
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
    Most most;
    sum_ = add_up(addends, n_, &most);
    if (most.gradient / UNEVEN > most.sizes / n_ || most.curvature / UNEVEN > sum_.curvature / n_)
        return false;
    int bits = bits_of(n_), of_row = 64 - 3 * bits; // bits of a gradient and a curvature
    packing_.count_bits = bits;
    packing_.curvature_bits = std::min(of_row / 2, 30 - bits) + bits;
    int of_gradient = std::min(of_row - of_row / 2, 31 - bits); // including the sign
    packing_.gradient_shift = std::max(0, bits_of(most.gradient) + 1 - of_gradient);
    packing_.curvature_shift =
        std::max(0, bits_of(most.curvature) - (packing_.curvature_bits - bits));
    total_ = write_words(addends, n_, packing_, words_);
    return true;
}

} // namespace tusk
