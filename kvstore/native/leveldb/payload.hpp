// The bytes of a partition under its key.
//
//   uint32  head: bits 0..3 format (1), bit 4 doubles, bit 5 pairs, bits 8..31 number of weights
//   uint32  CRC-32C of key, head and what follows
//   dense:  the weights
//   pairs:  the weights whose bits are not all 0, then their slots (uint16 if there are at most
//           65,536 weights, else uint32), ascending
//
// Little-endian. Whichever is shorter is written. -0.0 and NaN come back as they were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../../mapped/crc32c.h"

namespace tusk {

// CRC-32C of payloads and blocks.

inline std::uint32_t crc32c(std::uint32_t crc, const void *bytes, std::size_t n) {
    return tusk_crc32c(crc, bytes, n);
}

// The CRC of a payload with its key, so that a payload stored under another key does not match.
inline std::uint32_t keyed_crc(std::uint64_t key, const void *bytes, std::size_t n) {
    return crc32c(crc32c(0, &key, sizeof key), bytes, n);
}

constexpr std::uint32_t FORMAT = 1, DOUBLES = 1 << 4, PAIRS = 1 << 5;
constexpr std::uint32_t KNOWN_BITS = 0xf | DOUBLES | PAIRS;
constexpr std::size_t HEAD = 8;

template <class Weight> struct BitsOf;
template <> struct BitsOf<float> {
    using type = std::uint32_t;
};
template <> struct BitsOf<double> {
    using type = std::uint64_t;
};

template <class Weight> bool is_zero(const Weight &weight) {
    typename BitsOf<Weight>::type bits;
    std::memcpy(&bits, &weight, sizeof bits);
    return bits == 0;
}

template <class Weight> std::size_t count_nonzero(const Weight *weights, std::size_t n) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i++)
        count += !is_zero(weights[i]);
    return count;
}

inline std::size_t slot_size(std::size_t width) {
    return width <= 65536 ? 2 : 4;
}

template <class Slot, class Weight>
void put_pairs(const Weight *weights, std::size_t width, std::size_t count, std::uint8_t *out) {
    std::uint8_t *slots = out + count * sizeof(Weight);
    for (std::size_t i = 0; i < width; i++) {
        if (is_zero(weights[i]))
            continue;
        auto slot = static_cast<Slot>(i);
        std::memcpy(out, &weights[i], sizeof(Weight));
        std::memcpy(slots, &slot, sizeof slot);
        out += sizeof(Weight);
        slots += sizeof slot;
    }
}

// False if a slot lies outside.
template <class Slot, class Weight>
bool take_pairs(const std::uint8_t *bytes, std::size_t count, std::size_t width, Weight *out) {
    const std::uint8_t *slots = bytes + count * sizeof(Weight);
    std::memset(static_cast<void *>(out), 0, width * sizeof(Weight));
    for (std::size_t i = 0; i < count; i++) {
        Slot slot;
        std::memcpy(&slot, slots + i * sizeof slot, sizeof slot);
        if (slot >= width)
            return false;
        std::memcpy(out + slot, bytes + i * sizeof(Weight), sizeof(Weight));
    }
    return true;
}

// Replaces bytes by the payload.
template <class Weight>
void encode(std::uint64_t key, const Weight *weights, std::size_t width,
            std::vector<std::uint8_t> &bytes) {
    std::size_t dense = width * sizeof(Weight), pair = sizeof(Weight) + slot_size(width);
    std::size_t count = width > 1 ? count_nonzero(weights, width) : width;
    bool pairs = count * pair < dense;
    bytes.resize(HEAD + (pairs ? count * pair : dense));
    std::uint32_t head = FORMAT | (sizeof(Weight) == 8 ? DOUBLES : 0) | (pairs ? PAIRS : 0) |
                         static_cast<std::uint32_t>(width) << 8;
    if (!pairs)
        std::memcpy(bytes.data() + HEAD, weights, dense);
    else if (slot_size(width) == 2)
        put_pairs<std::uint16_t>(weights, width, count, bytes.data() + HEAD);
    else
        put_pairs<std::uint32_t>(weights, width, count, bytes.data() + HEAD);
    std::memcpy(bytes.data(), &head, 4);
    std::uint32_t crc = keyed_crc(key, &head, 4);
    crc = crc32c(crc, bytes.data() + HEAD, bytes.size() - HEAD);
    std::memcpy(bytes.data() + 4, &crc, 4);
}

// Returns what is wrong with a payload; nullptr if it is valid, and then *width is its number of
// weights.
inline const char *check(std::uint64_t key, const std::uint8_t *bytes, std::size_t length,
                         std::size_t weight_size, std::size_t *width) {
    if (length < HEAD)
        return "is too short";
    std::uint32_t head, crc;
    std::memcpy(&head, bytes, 4);
    std::memcpy(&crc, bytes + 4, 4);
    if (crc32c(keyed_crc(key, &head, 4), bytes + HEAD, length - HEAD) != crc)
        return "has a wrong CRC";
    if ((head & 0xf) != FORMAT || (head & 0xff & ~KNOWN_BITS))
        return "is of an unknown format";
    if ((head & DOUBLES ? 8u : 4u) != weight_size)
        return "holds weights of another type";
    *width = head >> 8;
    std::size_t body = length - HEAD;
    std::size_t unit = weight_size + (head & PAIRS ? slot_size(*width) : 0);
    if (head & PAIRS ? body % unit || body / unit > *width : body != *width * unit)
        return "has a wrong length";
    return nullptr;
}

// Decodes a payload that check() accepted; false if a slot lies outside.
template <class Weight>
bool decode(const std::uint8_t *bytes, std::size_t length, std::size_t width, Weight *out) {
    std::uint32_t head;
    std::memcpy(&head, bytes, 4);
    std::size_t body = length - HEAD;
    if (!(head & PAIRS)) {
        std::memcpy(static_cast<void *>(out), bytes + HEAD, body);
        return true;
    }
    if (slot_size(width) == 2)
        return take_pairs<std::uint16_t>(bytes + HEAD, body / (sizeof(Weight) + 2), width, out);
    return take_pairs<std::uint32_t>(bytes + HEAD, body / (sizeof(Weight) + 4), width, out);
}

} // namespace tusk
