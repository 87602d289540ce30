// Orders features by the rows that use them: first the features of several groups of rows, then,
// group by group, the features of that group alone. Stores a byte per feature, and counts at
// regular intervals.
#include "api.h"

#include <algorithm>

namespace {

constexpr int64_t STRIDE = 4096; // features between counts
constexpr uint8_t UNSEEN = 255, SHARED = 0;

using Bytes = uint8_t __attribute__((vector_size(16)));

// n is below STRIDE, so at most 255 vectors are counted and a byte per place is enough.
int64_t count_equal(const uint8_t *codes, int64_t n, uint8_t code) {
    Bytes counts{};
    int64_t k = 0, count = 0;
    for (; k + 16 <= n; k += 16) {
        Bytes some;
        __builtin_memcpy(&some, codes + k, sizeof some);
        counts -= reinterpret_cast<Bytes>(some == code); // all bits set where they are equal
    }
    for (int place = 0; place < 16; ++place) {
        count += counts[place];
    }
    for (; k < n; ++k) {
        count += codes[k] == code;
    }
    return count;
}

} // namespace

void tp_order_mark(uint8_t *codes, const int64_t *features, int64_t n, uint8_t code) {
    for (int64_t k = 0; k < n; ++k) {
        uint8_t &seen = codes[features[k]];
        seen = seen == UNSEEN || seen == code ? code : SHARED;
    }
}

void tp_order_count(const uint8_t *codes, int64_t n, int32_t n_codes, int64_t *counts) {
    std::fill_n(counts, n_codes, 0);
    for (int64_t k = 0; k < n; ++k) {
        if (k && k % STRIDE == 0) {
            std::copy_n(counts, n_codes, counts + n_codes);
            counts += n_codes;
        }
        counts[codes[k]]++;
    }
}

void tp_order_number(const uint8_t *codes, int32_t n_codes, const int64_t *counts,
                     const int64_t *first, int64_t *features, int64_t n) {
    for (int64_t k = 0; k < n; ++k) {
        const int64_t feature = features[k];
        if (feature < 0) {
            continue;
        }
        const uint8_t code = codes[feature];
        const int64_t row = feature / STRIDE, begin = row * STRIDE;
        const int64_t before = row ? counts[(row - 1) * n_codes + code] : 0;
        features[k] = first[code] + before + count_equal(codes + begin, feature - begin, code);
    }
}

void tp_order_feature(const uint8_t *codes, int64_t n_features, int32_t n_codes,
                      const int64_t *counts, const int64_t *first, int64_t *numbers, int64_t n) {
    const int64_t rows = (n_features + STRIDE - 1) / STRIDE;
    int64_t last = -2, feature = 0;
    for (int64_t k = 0; k < n; ++k) {
        const int64_t number = numbers[k];
        const int64_t *above = std::upper_bound(first, first + n_codes, number);
        const auto code = static_cast<uint8_t>(above - first - 1);
        int64_t left = number - first[code]; // number of features with this code still to pass
        if (rows == 0 || left >= counts[(rows - 1) * n_codes + code]) {
            numbers[k] = -1;
            continue;
        }
        if (number == last + 1 && left > 0) {
            ++feature;
            left = 0;
        } else {
            int64_t low = 0, high = rows - 1; // the first row that ends above it
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                counts[middle * n_codes + code] > left ? high = middle : low = middle + 1;
            }
            left -= low ? counts[(low - 1) * n_codes + code] : 0;
            feature = low * STRIDE;
        }
        for (;; ++feature) {
            if (codes[feature] == code && left-- == 0) {
                break;
            }
        }
        last = number;
        numbers[k] = feature;
    }
}
