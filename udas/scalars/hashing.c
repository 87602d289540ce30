#include "hashing.h"

#include <stdio.h>

#define MIN_BITS 1
#define MAX_BITS 30

static uint32_t rotate(uint32_t x, int by) {
    return x << by | x >> (32 - by);
}

static uint32_t scramble(uint32_t k) {
    return rotate(k * 0xcc9e2d51u, 15) * 0x1b873593u;
}

/* MurmurHash3_x86_32 (A. Appleby, public domain), which reads its blocks as little-endian
 * numbers.
 */
static uint32_t murmur3(const unsigned char *data, size_t n) {
    uint32_t h = 0;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        uint32_t k = 0;
        for (size_t j = i + 4; j > i; j--)
            k = k << 8 | data[j - 1];
        h = rotate(h ^ scramble(k), 13) * 5 + 0xe6546b64u;
    }
    uint32_t k = 0;
    for (size_t j = n; j > i; j--)
        k = k << 8 | data[j - 1];
    h ^= scramble(k) ^ (uint32_t)n;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

bool tusk_check_bits(int32_t bits, char *sentence) {
    if (bits >= MIN_BITS && bits <= MAX_BITS)
        return true;
    snprintf(sentence, TUSK_SENTENCE, "bits is %d, expected %d to %d", bits, MIN_BITS, MAX_BITS);
    return false;
}

bool tusk_check_lengths(uint64_t names, uint64_t values, char *sentence) {
    if (names == values)
        return true;
    snprintf(sentence, TUSK_SENTENCE, "there are %llu names and %llu values, expected as many",
             (unsigned long long)names, (unsigned long long)values);
    return false;
}

int32_t tusk_hash_feature(tusk_feature *f, int32_t bits) {
    uint32_t h = murmur3((const unsigned char *)f->name, f->length);
    bool negative = h >> 31;
    if (negative)
        f->value = -f->value;
    return (int32_t)((negative ? 0 - h : h) & ((1u << bits) - 1));
}
