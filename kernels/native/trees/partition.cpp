// Divides the rows of a leaf between its children.
#include <algorithm>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "../shared/pool.hpp"
#include "tree.hpp"

namespace tusk {
namespace {

constexpr int64_t LEAST = 1 << 13; // rows that justify another thread
constexpr int64_t NEAR = 1 << 18;  // cells between rows that fit the core's cache
constexpr int AHEAD = 16;          // rows between a prefetch and its use

inline bool is_left(const Side &side, uint8_t code) {
    return side.left(code);
}
inline bool is_left(const CodeSet &side, uint8_t code) {
    return side.has(code);
}

// Keeps rows to the left in `which`, and moves the others to scratch. Returns the number of the
// former. There are no branches on the data, because half of them would be mispredicted.
template <bool FAR, class Left>
int64_t divide(const uint8_t *column, int32_t d, const Left &side, uint32_t *which,
               uint32_t *scratch, int64_t n) {
    int64_t left = 0;
    for (int64_t i = 0; i < n; i++) {
        if (FAR && i + AHEAD < n)
            __builtin_prefetch(column + (size_t)which[i + AHEAD] * d);
        uint32_t row = which[i];
        bool goes_left = is_left(side, column[(size_t)row * d]);
        which[left] = row;
        scratch[i - left] = row;
        left += goes_left;
    }
    return left;
}

// Marks which of n rows go left, as bits. Returns their number.
template <class Left>
int64_t note(const uint8_t *column, int32_t d, const Left &side, const uint32_t *which, int64_t n,
             uint64_t *goes_left) {
    int64_t left = 0;
    for (int64_t begin = 0; begin < n; begin += 64) {
        uint64_t set = 0;
        for (int64_t i = begin, end = std::min(begin + 64, n); i < end; i++) {
            if (i + AHEAD < n)
                __builtin_prefetch(column + (size_t)which[i + AHEAD] * d);
            set |= (uint64_t)is_left(side, column[(size_t)which[i] * d]) << (i - begin);
        }
        goes_left[begin / 64] = set;
        left += __builtin_popcountll(set);
    }
    return left;
}

// Writes those of 64 rows that are in a set, and nothing beyond them. Returns the end.
inline uint32_t *list(const uint32_t *which, uint64_t set, uint32_t *out) {
#if defined(__AVX512F__)
    for (int part = 0; part < 4; part++, which += 16) {
        auto bits = (__mmask16)(set >> 16 * part);
        int n = __builtin_popcount(bits);
        __m512i rows = _mm512_maskz_compress_epi32(bits, _mm512_maskz_loadu_epi32(bits, which));
        _mm512_mask_storeu_epi32(out, (__mmask16)((1U << n) - 1), rows);
        out += n;
    }
#else
    for (; set; set &= set - 1)
        *out++ = which[__builtin_ctzll(set)];
#endif
    return out;
}

// Copies n rows to either side.
void copy(const uint32_t *which, int64_t n, const uint64_t *goes_left, uint32_t *left,
          uint32_t *right) {
    for (int64_t at = 0; at < n; at += 64, which += 64) {
        uint64_t set = goes_left[at / 64],
                 all = n - at < 64 ? (UINT64_C(1) << (n - at)) - 1 : ~UINT64_C(0);
        left = list(which, set, left);
        right = list(which, all & ~set, right);
    }
}

// Several threads first mark which rows go left, and then copy those of each part to the position
// after the earlier parts.
template <class Left>
Halves divide_far(const uint8_t *codes, int32_t d, const Left &side, const LeafRows &rows,
                  int64_t parts, int threads) {
    int64_t length = ((rows.n + parts - 1) / parts + 63) / 64 * 64;
    auto size = [&](int64_t part) {
        return std::clamp<int64_t>(rows.n - part * length, 0, length);
    };
    std::vector<int64_t> before(parts + 1); // number of rows that go left
    rows.sides->resize((rows.n + 63) / 64);
    uint64_t *sides = rows.sides->data();
    parallel_for(parts, threads, [&](int64_t part) {
        int64_t at = part * length;
        before[part + 1] = note(codes, d, side, rows.which + at, size(part), sides + at / 64);
    });
    for (int64_t part = 0; part < parts; part++)
        before[part + 1] += before[part];
    parallel_for(parts, threads, [&](int64_t part) {
        int64_t at = part * length;
        uint32_t *right = rows.other + before[parts] + std::min(at, rows.n) - before[part];
        copy(rows.which + at, size(part), sides + at / 64, rows.other + before[part], right);
    });
    return {before[parts], true};
}

template <class Left>
Halves partition(const uint8_t *codes, int32_t d, const Left &side, const LeafRows &rows,
                 int threads) {
    uint32_t *which = rows.which;
    int64_t n = rows.n, parts = std::clamp<int64_t>(n / LEAST, 1, threads);
    if (parts > 1)
        return divide_far(codes, d, side, rows, parts, threads);
    bool near = n && (int64_t)(which[n - 1] - which[0]) * d <= NEAR; // rows rise
    int64_t left = near ? divide<false>(codes, d, side, which, rows.other, n)
                        : divide<true>(codes, d, side, which, rows.other, n);
    std::copy_n(rows.other, n - left, which + left);
    return {left, false};
}

} // namespace

Halves partition_rows(const uint8_t *codes, int32_t d, Side side, const LeafRows &rows,
                      int threads) {
    return partition(codes, d, side, rows, threads);
}

Halves partition_rows(const uint8_t *codes, int32_t d, const CodeSet &side, const LeafRows &rows,
                      int threads) {
    return partition(codes, d, side, rows, threads);
}

} // namespace tusk
