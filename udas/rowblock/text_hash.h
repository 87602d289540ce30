/* The hash of a category's text. Payloads of models have tables by it, so it must not change. */
#ifndef TUSK_TEXT_HASH_H
#define TUSK_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The two halves of a product of 128 bits, so that each bit of the result depends on all bits:
 * texts that differ in their last characters alone are common. */
static inline uint64_t tusk_hash_mix(uint64_t h, uint64_t x) {
    unsigned __int128 product =
        (unsigned __int128)(h ^ x ^ 0xa0761d6478bd642fu) * 0x9e3779b97f4a7c15u;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint32_t tusk_four_bytes(const char *text) {
    uint32_t x;
    memcpy(&x, text, 4);
    return x;
}

static inline uint64_t tusk_hash_text(const char *text, size_t length) {
    uint64_t h = length, x = 0;
    for (; length > 8; text += 8, length -= 8) {
        memcpy(&x, text, 8);
        h = tusk_hash_mix(h, x);
    }
    x = 0;
    if (length >= 4)
        x = tusk_four_bytes(text) | (uint64_t)tusk_four_bytes(text + length - 4) << 32;
    else if (length)
        x = (uint64_t)(unsigned char)text[0] | (uint64_t)(unsigned char)text[length / 2] << 8 |
            (uint64_t)(unsigned char)text[length - 1] << 16;
    return tusk_hash_mix(h, x);
}

/* Whether two texts of this length are equal. Most are so short that a call would cost more. */
static inline int tusk_same_bytes(const char *a, const char *b, size_t length) {
    if (length > 16)
        return memcmp(a, b, length) == 0;
    if (length >= 8) {
        uint64_t x[2], y[2];
        memcpy(x, a, 8);
        memcpy(y, b, 8);
        memcpy(x + 1, a + length - 8, 8);
        memcpy(y + 1, b + length - 8, 8);
        return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
    }
    if (length >= 4)
        return tusk_four_bytes(a) == tusk_four_bytes(b) &&
               tusk_four_bytes(a + length - 4) == tusk_four_bytes(b + length - 4);
    for (size_t i = 0; i < length; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

#endif
