// The sampled rows by feature and by row: bitsets of rows, and lists of features.
#pragma once

#include <cstdint>
#include <vector>

namespace tusk {

// Counts the bits that two bitsets share, with the processor's widest popcount.

using Word = uint64_t;

struct OverlapKernels {
    // popcount(a & b) over n words.
    int64_t (*dense)(const Word *a, const Word *b, int64_t n);
    // popcount(words[k] & b[index[k]]) over k = 0 .. n - 1.
    int64_t (*sparse)(const Word *words, const int32_t *index, int64_t n, const Word *b);
};

// Selected once, at the first call.
const OverlapKernels &overlap_kernels();

class Sample {
public:
    Sample(const int64_t *starts, const int32_t *features, int64_t n_rows, int32_t n_features);

    int64_t words() const { return words_; }
    // The rows that access a partition, one bit per row. A partition has the number of its lowest
    // feature.
    Word *rows(int32_t partition) { return bits_.data() + partition * words_; }
    const Word *rows(int32_t partition) const { return bits_.data() + partition * words_; }
    int64_t count(int32_t partition) const;

    // Counts the rows that access both `feature` and each feature after it: out[j - feature - 1]
    // for feature j. Uses lists of features or popcounts, whichever reads less; both are exact.
    void affinities(int32_t feature, int32_t *out) const;

private:
    void collect_lists();
    void by_lists(int32_t feature, int32_t *out) const;
    void by_popcounts(int32_t feature, int32_t *out) const;
    template <class Body> void each_row(int32_t feature, Body body) const;

    int32_t n_features_;
    int64_t n_rows_, words_;
    std::vector<Word> bits_;      // (n_features, words)
    std::vector<int64_t> starts_; // (n_rows + 1,) where a row's list begins
    std::vector<int32_t> lists_;  // the distinct features of each row, falling
    std::vector<int64_t> after_;  // (n_features,) accesses of later features in its rows
};

} // namespace tusk
