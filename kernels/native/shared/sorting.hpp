// Sorts floating-point numbers by their digits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace tusk {

// Sorts numbers, none of which is NaN; -0 comes before 0. The digits are bytes of integers of the
// same order (Knuth, The Art of Computer Programming, volume 3, section 5.2.5). Bytes that all
// numbers share cost nothing.
template <class T> void sort_numbers(std::vector<T> &numbers) {
    using Key = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr size_t DIGITS = sizeof(T), FEW = 64;
    constexpr Key SIGN = (Key)1 << (8 * DIGITS - 1);
    size_t n = numbers.size();
    if (n < FEW || n > UINT32_MAX)
        return std::sort(numbers.begin(), numbers.end());
    std::vector<Key> keys(n), other(n);
    uint32_t counts[DIGITS][256] = {};
    for (size_t i = 0; i < n; i++) {
        Key key;
        std::memcpy(&key, &numbers[i], sizeof key);
        keys[i] = key ^= key & SIGN ? ~(Key)0 : SIGN;
        for (size_t digit = 0; digit < DIGITS; digit++)
            counts[digit][key >> 8 * digit & 255]++;
    }
    for (size_t digit = 0; digit < DIGITS; digit++) {
        uint32_t *count = counts[digit], before = 0;
        if (count[keys[0] >> 8 * digit & 255] == n)
            continue;
        for (int value = 0; value < 256; value++) {
            uint32_t here = count[value];
            count[value] = before;
            before += here;
        }
        for (Key key : keys)
            other[count[key >> 8 * digit & 255]++] = key;
        keys.swap(other);
    }
    for (size_t i = 0; i < n; i++) {
        Key key = keys[i] ^ (keys[i] & SIGN ? SIGN : ~(Key)0);
        std::memcpy(&numbers[i], &key, sizeof key);
    }
}

} // namespace tusk
