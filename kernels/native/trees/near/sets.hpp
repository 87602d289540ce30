// Sets of rows as bits, and sums over listed rows.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "near_rows.hpp"

namespace tusk {

// Marks which of 64 codes are at most `bin`.
inline uint64_t up_to(const uint8_t *codes, uint8_t bin) {
    uint64_t set = 0;
#if defined(__AVX512BW__)
    set = _mm512_cmple_epu8_mask(_mm512_loadu_si512(codes), _mm512_set1_epi8((char)bin));
#elif defined(__SSE2__)
    __m128i most = _mm_set1_epi8((char)bin);
    for (int i = 0; i < 4; i++) {
        __m128i part = _mm_loadu_si128((const __m128i *)codes + i);
        auto bits = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(part, most), most));
        set |= (uint64_t)bits << 16 * i;
    }
#else
    for (int i = 0; i < 64; i++)
        set |= (uint64_t)(codes[i] <= bin) << i;
#endif
    return set;
}

// Marks which of 64 codes are `bin`.
inline uint64_t equal_to(const uint8_t *codes, uint8_t bin) {
    uint64_t below = bin ? up_to(codes, (uint8_t)(bin - 1)) : 0;
    return up_to(codes, bin) & ~below;
}

constexpr size_t ROOM_OF_LISTS = 16; // numbers that may be written beyond a list

// Writes the numbers of the rows of a set of some words, ascending. Returns their number.
inline int32_t list_rows(const uint64_t *set, int64_t words, uint32_t *out) {
    uint32_t *at = out;
#if defined(__AVX512F__)
    __m512i row = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int64_t w = 0; w < words; w++)
        for (int part = 0; part < 4; part++, row = _mm512_add_epi32(row, _mm512_set1_epi32(16))) {
            auto bits = (__mmask16)(set[w] >> 16 * part);
            _mm512_storeu_si512(at, _mm512_maskz_compress_epi32(bits, row));
            at += __builtin_popcount(bits);
        }
#else
    for (int64_t w = 0; w < words; w++)
        for (uint64_t left = set[w]; left; left &= left - 1)
            *at++ = (uint32_t)(64 * w + __builtin_ctzll(left));
#endif
    return (int32_t)(at - out);
}

// Adds listed rows to a histogram, or subtracts them with -1.
template <int SIGN = 1>
inline void add_rows(const NearRows &rows, const uint32_t *which, int32_t n, int64_t *cells) {
    int32_t d = rows.features();
    for (int32_t i = 0; i < n; i++) {
        const uint16_t *cell = rows.cells(which[i]);
        int64_t word = SIGN * rows.words()[which[i]];
#pragma GCC unroll 4
        for (int32_t f = 0; f < d; f++)
            cells[cell[f]] += word;
    }
}

} // namespace tusk
