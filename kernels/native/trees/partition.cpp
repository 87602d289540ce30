// Divides the rows of a leaf between its children.
#include <algorithm>
#include <cstring>

#include "../shared/pool.hpp"
#include "tree.hpp"

namespace tusk {
namespace {

constexpr int64_t LEAST = 1 << 15; // rows that another thread is worth
constexpr int64_t NEAR = 1 << 18;  // cells between rows that lie in the core's cache
constexpr int AHEAD = 16;          // rows between a prefetch and its use

inline bool is_left(const Side &side, uint8_t code) {
    return side.left(code);
}
inline bool is_left(const CodeSet &side, uint8_t code) {
    return side.has(code);
}

// Rows to the left stay in `which`, the others go to scratch. Returns the number of the former.
// There are no branches on the data, because half of them would be mispredicted.
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

template <class Left>
int64_t partition(const uint8_t *codes, int32_t d, const Left &side, uint32_t *which,
                  uint32_t *scratch, int64_t n, int threads) {
    if (n && (int64_t)(which[n - 1] - which[0]) * d <= NEAR) { // rows rise
        int64_t left = divide<false>(codes, d, side, which, scratch, n);
        std::copy_n(scratch, n - left, which + left);
        return left;
    }
    int64_t parts = std::clamp<int64_t>(n / LEAST, 1, threads);
    int64_t length = (n + parts - 1) / parts;
    std::vector<int64_t> left(parts);
    auto size = [&](int64_t part) { return std::min(length, n - part * length); };
    parallel_for(parts, threads, [&](int64_t part) {
        int64_t at = part * length;
        left[part] = divide<true>(codes, d, side, which + at, scratch + at, size(part));
    });
    int64_t at = left[0];
    for (int64_t part = 1; part < parts; part++) {
        std::memmove(which + at, which + part * length, left[part] * sizeof *which);
        at += left[part];
    }
    int64_t all_left = at;
    for (int64_t part = 0; part < parts; part++) {
        int64_t right = size(part) - left[part];
        std::memcpy(which + at, scratch + part * length, right * sizeof *which);
        at += right;
    }
    return all_left;
}

} // namespace

int64_t partition_rows(const uint8_t *codes, int32_t d, Side side, uint32_t *which,
                       uint32_t *scratch, int64_t n, int threads) {
    return partition(codes, d, side, which, scratch, n, threads);
}

int64_t partition_rows(const uint8_t *codes, int32_t d, const CodeSet &side, uint32_t *which,
                       uint32_t *scratch, int64_t n, int threads) {
    return partition(codes, d, side, which, scratch, n, threads);
}

} // namespace tusk
