// Draws rows and features.
#include "sampling.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace tusk {

std::vector<int32_t> draw_features(int32_t d, double share, uint64_t seed) {
    std::vector<int32_t> all(d);
    std::iota(all.begin(), all.end(), 0);
    if (share >= 1)
        return all;
    auto wanted = std::max<size_t>((size_t)std::ceil(share * (double)d), 1);
    for (size_t i = 0; i < wanted; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        std::swap(all[i], all[i + mixed(seed) % (all.size() - i)]);
    }
    all.resize(wanted);
    std::sort(all.begin(), all.end());
    return all;
}

void Scales::add(const double *labels, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        least = std::min(least, labels[i]);
        greatest = std::max(greatest, labels[i]);
    }
}

Scales scales_of(const Contents &rows) {
    Scales found;
    found.add(rows.labels, rows.n);
    if (rows.weights && rows.n)
        found.most = *std::max_element(rows.weights, rows.weights + rows.n);
    return found;
}

namespace {

constexpr int LAST_BITS = 20; // of a double's 52, which may differ by the rounding of other units

// A nonnegative fraction without its last bits.
uint64_t word_of(double share) {
    uint64_t word;
    std::memcpy(&word, &share, sizeof word);
    return (word + (UINT64_C(1) << (LAST_BITS - 1))) >> LAST_BITS;
}

} // namespace

std::vector<uint64_t> content_keys(const Contents &rows, const Scales &scales) {
    std::vector<uint64_t> keys(rows.n);
    double range = scales.greatest / 2 - scales.least / 2; // halves, so that it is finite
    for (int64_t i = 0; i < rows.n; i++) {
        double above = rows.labels[i] / 2 - scales.least / 2;
        uint64_t hash = word_of(range > 0 ? above / range : 0);
        double weight = rows.weights ? rows.weights[i] / scales.most : 1;
        if (weight != 1) // so that equal weights change nothing
            hash = mixed(hash ^ mixed(word_of(weight)));
        const uint8_t *row = rows.codes + (size_t)i * rows.d;
        for (int32_t f = 0; f < rows.d; f += 8) {
            uint64_t word = 0;
            std::memcpy(&word, row + f, std::min(8, rows.d - f));
            hash = mixed(hash ^ word) + UINT64_C(0x9e3779b97f4a7c15);
        }
        keys[i] = mixed(hash);
    }
    return keys;
}

// Orders rows of one key, which may differ in digits that it lacks.
void tell_equals_apart(std::vector<uint64_t> &keys, const Contents &rows, const First *first) {
    std::vector<uint32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        if (keys[a] != keys[b])
            return keys[a] < keys[b];
        if (rows.labels[a] != rows.labels[b])
            return rows.labels[a] < rows.labels[b];
        if (rows.weights && rows.weights[a] != rows.weights[b])
            return rows.weights[a] < rows.weights[b];
        if (rows.offsets && rows.offsets[a] != rows.offsets[b])
            return rows.offsets[a] < rows.offsets[b];
        return a < b;
    });
    uint64_t before = 0, last = 0;
    for (size_t i = 0; i < order.size(); i++) {
        uint64_t &key = keys[order[i]];
        before = i && key == last ? before + 1 : first ? (*first)(key) : 0;
        last = key;
        key = mixed(key + before * UINT64_C(0x9e3779b97f4a7c15));
    }
}

std::vector<uint64_t> row_keys(const Contents &rows) {
    std::vector<uint64_t> keys = content_keys(rows, scales_of(rows));
    tell_equals_apart(keys, rows, nullptr);
    return keys;
}

int64_t drawn_rows(const std::vector<uint64_t> &keys, double share, uint64_t seed, uint32_t *out) {
    auto below = (uint64_t)(std::min(share, 0.9999999) * 0x1p64);
    int64_t drawn = 0;
    for (size_t i = 0; i < keys.size(); i++) {
        out[drawn] = (uint32_t)i;
        drawn += mixed(keys[i] ^ seed) < below;
    }
    return drawn;
}

int64_t draw_rows(const std::vector<uint64_t> &keys, double share, uint64_t seed, uint32_t *out) {
    if (int64_t drawn = drawn_rows(keys, share, seed, out))
        return drawn;
    std::iota(out, out + keys.size(), 0U);
    return (int64_t)keys.size();
}

} // namespace tusk
