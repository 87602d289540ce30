// Hashes of original rows, before they are prepared or numbered. They depend on the nonzero
// features, each with its index or id, and not on the label, the weight and the offset, which have
// units: dense and sparse rows of the same numbers have the same hash, whatever their type and the
// order of their entries. So do rows of a group in all its parts, as texts enter by their bytes.
#pragma once

#include <cmath>
#include <cstring>

#include "../../../udas/rowblock/text_hash.h"
#include "../shared/rows.hpp"

namespace tusk {

inline uint64_t mix(uint64_t a, uint64_t b) {
    __uint128_t m = (__uint128_t)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

// Hash of a value at an index; the sum of those of a row is finished by `hash_of_sum`.
inline uint64_t hash_at(uint64_t place, uint64_t bits) {
    return mix(bits ^ (place + 1) * 0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u);
}

// Hash of a number; a NULL, which is NaN, differs from all numbers.
inline uint64_t hash_of_number(uint64_t place, double x) {
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    if (std::isnan(x))
        bits = 0x7ff8000000000000u;
    return x == 0 ? 0 : hash_at(place, bits);
}

inline uint64_t hash_of_text(uint64_t place, const char *text, size_t length) {
    return hash_at(~place, tusk_hash_text(text, length));
}

inline uint64_t hash_of_sum(uint64_t sum) {
    return mix(sum ^ 0xd1b54a32d192ed03u, 0x94d049bb133111ebu);
}

template <class T> uint64_t sum_of_values(const T *x, int64_t n) {
    uint64_t sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += hash_of_number((uint64_t)j, (double)x[j]);
    return sum;
}

template <class T>
uint64_t sum_of_entries(const int32_t *id, const int32_t *high, const T *x, uint32_t n) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += hash_of_number((uint64_t)tusk_joined_id(high ? high[i] : 0, id[i]),
                              x ? (double)x[i] : 1);
    return sum;
}

// Sum of hashes of the features of a row that are numbers. high: the high bits of the ids of its
// segment; NULL: these are narrow.
inline uint64_t sum_of_row(const tusk_group &group, const tusk_segment *s, uint32_t row,
                           const int32_t *high = nullptr) {
    if (!tusk_is_sparse(group.kind)) {
        const char *x = (const char *)tusk_dense_values(s);
        size_t at = (size_t)row * (size_t)group.dim;
        return group.kind == TUSK_DENSE_F64 ? sum_of_values((const double *)x + at, group.dim)
                                            : sum_of_values((const float *)x + at, group.dim);
    }
    uint32_t at = tusk_row_starts(s)[row], n = tusk_row_starts(s)[row + 1] - at;
    const int32_t *id = tusk_indices(s) + at;
    high = high ? high + at : nullptr;
    const void *x = tusk_sparse_values(s);
    if (group.kind == TUSK_IDS)
        return sum_of_entries<float>(id, high, nullptr, n);
    return group.kind == TUSK_SPARSE_F64 ? sum_of_entries(id, high, (const double *)x + at, n)
                                         : sum_of_entries(id, high, (const float *)x + at, n);
}

// Hash of a row of numbers. marked: its TUSK_FOLDS, if it has one, is the hash of the original
// row.
inline uint64_t hash_of_row(const tusk_group &group, const tusk_segment *s, uint32_t row,
                            bool marked, const int32_t *high = nullptr) {
    const double *mark = marked ? tusk_extra(s, tusk_shape_of(&group), TUSK_FOLDS) : nullptr;
    if (mark) {
        uint64_t hash;
        std::memcpy(&hash, mark + row, sizeof hash);
        return hash;
    }
    return hash_of_sum(sum_of_row(group, s, row, high));
}

// Writes the hashes of a segment's rows to its copy's TUSK_FOLDS, as bits.
inline void write_hashes(const tusk_group &group, const tusk_segment *s, const tusk_segment *to,
                         tusk_shape shape, const int32_t *high = nullptr) {
    double *out = tusk_extra(to, shape, TUSK_FOLDS);
    for (uint32_t row = 0; row < s->n_rows; row++) {
        uint64_t hash = hash_of_row(group, s, row, true, high);
        std::memcpy(out + row, &hash, sizeof hash);
    }
}

} // namespace tusk
