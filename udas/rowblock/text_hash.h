/* The hash of a category's text. Payloads of models have tables by it, so it must not change. */
#ifndef TUSK_TEXT_HASH_H
#define TUSK_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t tusk_hash_mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 32);
}

static inline uint64_t tusk_hash_text(const char *text, size_t length) {
    uint64_t h = length, x = 0;
    for (; length > 8; text += 8, length -= 8) {
        memcpy(&x, text, 8);
        h = tusk_hash_mix(h, x);
    }
    x = 0;
    if (length)
        memcpy(&x, text, length);
    return tusk_hash_mix(h, x);
}

#endif
