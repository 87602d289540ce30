// Ranks of numbers of rows in parts: the counts of one part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "../api.h"

namespace tusk {

// Bits whose order as an integer is that of numbers; both zeros have the same.
inline uint64_t key_of(double number) {
    number += 0.0;
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

// The bin of a key within its slot; -1: none.
inline int64_t bin_of(const tk_ranks &ranks, uint64_t key, int64_t slot) {
    if (ranks.known && key >> (64 - ranks.known) != ranks.first[slot])
        return -1;
    uint64_t next = ranks.known ? key << ranks.known : key;
    return (int64_t)(next >> (64 - ranks.bits));
}

// Counts rows; `each` calls its argument with the key, the slot and the weight of each row.
template <class Each>
void count_ranks(const tk_ranks &ranks, int64_t *counts, double *weights, Each &&each) {
    int64_t width = INT64_C(1) << ranks.bits, size = ranks.slots * width;
    if (counts)
        std::fill_n(counts, size, INT64_C(0));
    if (weights)
        std::fill_n(weights, size, 0.0);
    each([&](uint64_t key, int64_t slot, double weight) {
        int64_t bin = bin_of(ranks, key, slot);
        if (bin < 0)
            return;
        if (counts)
            counts[slot * width + bin]++;
        if (weights)
            weights[slot * width + bin] += weight;
    });
}

} // namespace tusk
