// The index map: a small hash table for the frequent features, a rule for all others.
#include "api.h"

#include <cstdint>

namespace {

// Fibonacci hashing (Knuth, The Art of Computer Programming 3, section 6.4): the upper bits of a
// product with 2^64 / golden ratio.
uint64_t home(int64_t feature, int32_t bits) {
    return static_cast<uint64_t>(feature) * 0x9E3779B97F4A7C15u >> (64 - bits);
}

// The position of the feature, or of the empty entry at which its search ends.
uint64_t find(const tp_place *table, int32_t bits, int64_t feature) {
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    uint64_t at = home(feature, bits);
    while (table[at].key >= 0 && table[at].feature != feature) {
        at = (at + 1) & mask;
    }
    return at;
}

// Divides features, which are not negative, by a constant; shifts if it is a power of two.
struct Divisor {
    Divisor() = default;
    explicit Divisor(int64_t size)
        : size(size), shift(__builtin_ctzll(size)), is_power((size & (size - 1)) == 0) {}
    int64_t divide(int64_t feature) const { return is_power ? feature >> shift : feature / size; }
    int64_t size;
    int shift;
    bool is_power;
};

struct Range {
    int64_t start, first_key;
    Divisor blocks;
};

constexpr int WIDTHS = 64;

int width_of(int64_t feature) {
    return feature == 0 ? 0 : WIDTHS - __builtin_clzll(feature);
}

} // namespace

void tp_table(const int64_t *features, const int64_t *keys, const int32_t *slots, int64_t n,
              int32_t bits, tp_place *table) {
    for (int64_t k = 0; k < int64_t{1} << bits; ++k) {
        table[k] = {0, -1, 0, 0};
    }
    for (int64_t k = 0; k < n; ++k) {
        table[find(table, bits, features[k])] = {features[k], keys[k], slots[k], 0};
    }
}

void tp_locate(const tp_place *table, int32_t bits, const tp_range *ranges,
               const int64_t *features, int64_t n, int64_t *keys, int32_t *slots) {
    Range by_width[WIDTHS];
    for (int width = 0; width < WIDTHS; ++width) {
        const tp_range &range = ranges[width];
        by_width[width] = {range.start, range.first_key, Divisor(range.size)};
    }
    for (int64_t k = 0; k < n; ++k) {
        const tp_place &place = table[find(table, bits, features[k])];
        if (place.key >= 0) {
            keys[k] = place.key;
            slots[k] = place.slot;
            continue;
        }
        const Range &range = by_width[width_of(features[k])];
        const int64_t within = features[k] - range.start;
        const int64_t block = range.blocks.divide(within);
        keys[k] = range.first_key + block;
        slots[k] = static_cast<int32_t>(within - block * range.blocks.size);
    }
}

int64_t tp_requests(const int32_t *rows, const int64_t *features, int64_t n, int64_t block) {
    const Divisor blocks(block);
    int64_t requests = 0, last = 0;
    for (int64_t k = 0; k < n; ++k) {
        const int64_t number = blocks.divide(features[k]);
        requests += k == 0 || number != last || rows[k] != rows[k - 1];
        last = number;
    }
    return requests;
}
