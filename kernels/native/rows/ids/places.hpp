// Sorted ids of features, and the position of an id among them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "../../shared/charged.hpp"
#include "../../shared/rows.hpp"

namespace tusk {

constexpr int64_t SORTED_AT_ONCE = 1 << 20; // ids, which take about 50 ms

// Sorts ids that agree in all bits above `bit`. A long range is first split by that bit, so that a
// cancel is noticed between the parts.
template <class Id> int sort_ids(Id *first, Id *last, int bit, int64_t mark) {
    if (cancelled(mark))
        return TK_CANCELLED;
    if (bit < 0 || last - first <= SORTED_AT_ONCE) {
        std::sort(first, last);
        return TK_OK;
    }
    Id *ones = std::partition(first, last, [=](Id id) { return !(id >> bit & 1); });
    int code = sort_ids(first, ones, bit - 1, mark);
    return code ? code : sort_ids(ones, last, bit - 1, mark);
}

// Finds the index of an id in an ascending list. A table has the start of each range of 2^shift
// ids, so the binary search covers one range only.
template <class Id> class Places {
public:
    int build(tusk_memory *memory, const Id *ids, int64_t n) {
        ids_ = ids;
        uint64_t dim = n ? (uint64_t)ids[n - 1] + 1 : 0;
        while ((dim >> shift_) > (uint64_t)n)
            shift_++;
        int64_t size = (int64_t)(dim >> shift_) + 2;
        if (int code = begin_.take(memory, (size_t)size))
            return code;
        int64_t at = 0;
        for (int64_t k = 0; k < size; k++) {
            while (at < n && (int64_t)((uint64_t)ids[at] >> shift_) < k)
                at++;
            begin_.data()[k] = (int32_t)at;
        }
        return TK_OK;
    }
    int32_t of(Id id) const {
        const int32_t *b = begin_.data() + ((uint64_t)id >> shift_);
        return (int32_t)(std::lower_bound(ids_ + b[0], ids_ + b[1], id) - ids_);
    }

private:
    const Id *ids_ = nullptr;
    int shift_ = 0;
    Charged<int32_t> begin_;
};

} // namespace tusk
