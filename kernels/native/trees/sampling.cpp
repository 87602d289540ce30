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

std::vector<uint64_t> content_keys(const uint8_t *codes, const double *labels,
                                   const double *weights, int64_t n, int32_t d) {
    std::vector<uint64_t> keys(n);
    for (int64_t i = 0; i < n; i++) {
        uint64_t hash;
        std::memcpy(&hash, labels + i, sizeof hash);
        if (weights && weights[i] != 1) { // so that weights of 1 change nothing
            uint64_t word;
            std::memcpy(&word, weights + i, sizeof word);
            hash = mixed(hash ^ mixed(word));
        }
        const uint8_t *row = codes + (size_t)i * d;
        for (int32_t f = 0; f < d; f += 8) {
            uint64_t word = 0;
            std::memcpy(&word, row + f, std::min(8, d - f));
            hash = mixed(hash ^ word) + UINT64_C(0x9e3779b97f4a7c15);
        }
        keys[i] = mixed(hash);
    }
    return keys;
}

void tell_equals_apart(std::vector<uint64_t> &keys, const First *first) {
    std::vector<uint32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
    });
    uint64_t before = 0, last = 0;
    for (size_t i = 0; i < order.size(); i++) {
        uint64_t &key = keys[order[i]];
        before = i && key == last ? before + 1 : first ? (*first)(key) : 0;
        last = key;
        key = mixed(key + before * UINT64_C(0x9e3779b97f4a7c15));
    }
}

std::vector<uint64_t> row_keys(const uint8_t *codes, const double *labels, const double *weights,
                               int64_t n, int32_t d) {
    std::vector<uint64_t> keys = content_keys(codes, labels, weights, n, d);
    tell_equals_apart(keys, nullptr);
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
