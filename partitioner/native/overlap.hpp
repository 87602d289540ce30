// Counts the bits that two bitsets share, with the processor's widest popcount.
#pragma once

#include <cstdint>

namespace tusk {

using Word = uint64_t;

struct OverlapKernels {
    // popcount(a & b) over n words.
    int64_t (*dense)(const Word *a, const Word *b, int64_t n);
    // popcount(words[k] & b[index[k]]) over k = 0 .. n - 1.
    int64_t (*sparse)(const Word *words, const int32_t *index, int64_t n, const Word *b);
};

// Selected once, at the first call.
const OverlapKernels &overlap_kernels();

} // namespace tusk
