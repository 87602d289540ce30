#include "sample.hpp"

#include <algorithm>

namespace tusk {
namespace {

constexpr int64_t WORD_BITS = 64;
// A step through a list costs about as much as the popcounts of this many words (measured).
constexpr int64_t WORDS_A_STEP = 4;

} // namespace

Sample::Sample(const int64_t *starts, const int32_t *features, int64_t n_rows, int32_t n_features)
    : n_features_(n_features), n_rows_(n_rows), words_((n_rows + WORD_BITS - 1) / WORD_BITS),
      bits_(n_features * words_), starts_(n_rows + 1), after_(n_features) {
    for (int64_t row = 0; row < n_rows; ++row) {
        const Word bit = Word{1} << (row % WORD_BITS);
        for (int64_t k = starts[row]; k < starts[row + 1]; ++k) {
            if (features[k] < 0 || features[k] >= n_features) {
                continue;
            }
            Word &word = rows(features[k])[row / WORD_BITS];
            starts_[row + 1] += (word & bit) == 0;
            word |= bit;
        }
    }
    collect_lists();
}

void Sample::collect_lists() {
    for (int64_t row = 0; row < n_rows_; ++row) {
        starts_[row + 1] += starts_[row];
    }
    lists_.resize(starts_[n_rows_]);
    std::vector<int64_t> next(starts_.begin(), starts_.end() - 1);
    for (int32_t feature = n_features_ - 1; feature >= 0; --feature) {
        each_row(feature, [&](int64_t row) {
            after_[feature] += next[row] - starts_[row];
            lists_[next[row]++] = feature;
        });
    }
}

int64_t Sample::count(int32_t partition) const {
    const Word *own = rows(partition);
    return overlap_kernels().dense(own, own, words_);
}

void Sample::affinities(int32_t feature, int32_t *out) const {
    const int64_t later = n_features_ - feature - 1;
    if (after_[feature] * WORDS_A_STEP < later * words_) {
        by_lists(feature, out);
    } else {
        by_popcounts(feature, out);
    }
}

void Sample::by_lists(int32_t feature, int32_t *out) const {
    std::fill_n(out, n_features_ - feature - 1, 0);
    int32_t *counts = out - feature - 1;
    each_row(feature, [&](int64_t row) {
        for (const int32_t *other = &lists_[starts_[row]]; *other > feature; ++other) {
            ++counts[*other];
        }
    });
}

void Sample::by_popcounts(int32_t feature, int32_t *out) const {
    const auto overlap = overlap_kernels().dense;
    for (int32_t other = feature + 1; other < n_features_; ++other) {
        *out++ = static_cast<int32_t>(overlap(rows(feature), rows(other), words_));
    }
}

template <class Body> void Sample::each_row(int32_t feature, Body body) const {
    const Word *own = rows(feature);
    for (int64_t k = 0; k < words_; ++k) {
        for (Word left = own[k]; left != 0; left &= left - 1) {
            body(k * WORD_BITS + __builtin_ctzll(left));
        }
    }
}

} // namespace tusk
