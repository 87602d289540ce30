#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strtod_l */
#endif
#include "hashing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_BITS 1
#define MAX_BITS 30
#define MAX_NUMBER 63

static uint32_t rotate(uint32_t x, int by) {
    return x << by | x >> (32 - by);
}

static uint32_t scramble(uint32_t k) {
    return rotate(k * 0xcc9e2d51u, 15) * 0x1b873593u;
}

/* MurmurHash3_x86_32 (A. Appleby, public domain), which reads its blocks as little-endian numbers.
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

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *p, const char *end) {
    while (p < end && is_digit(*p))
        p++;
    return p;
}

static const char *skip_sign(const char *p, const char *end) {
    return p < end && (*p == '+' || *p == '-') ? p + 1 : p;
}

/* [sign] digits [. digits] [e [sign] digits], a digit before or after the point. */
static bool is_number(const char *p, const char *end) {
    const char *start = p = skip_sign(p, end);
    p = skip_digits(p, end);
    ptrdiff_t digits = p - start;
    if (p < end && *p == '.') {
        start = ++p;
        p = skip_digits(p, end);
        digits += p - start;
    }
    if (!digits)
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        start = p = skip_sign(p + 1, end);
        p = skip_digits(p, end);
        if (p == start)
            return false;
    }
    return p == end;
}

/* A program may have set a locale with a decimal comma. */
static double to_number(const char *p, size_t length, locale_t locale) {
    char text[MAX_NUMBER + 1];
    memcpy(text, p, length);
    text[length] = 0;
    return strtod_l(text, NULL, locale);
}

tusk_feature tusk_parse_feature(const char *text, size_t length, locale_t locale) {
    size_t colon = length;
    while (colon && text[colon - 1] != ':')
        colon--;
    const char *number = text + colon, *end = text + length;
    if (colon < 2 || end - number > MAX_NUMBER || !is_number(number, end))
        return (tusk_feature){text, length, 1};
    return (tusk_feature){text, colon - 1, to_number(number, (size_t)(end - number), locale)};
}

bool tusk_check_bits(int32_t bits, char *sentence) {
    if (bits >= MIN_BITS && bits <= MAX_BITS)
        return true;
    snprintf(sentence, TUSK_SENTENCE, "bits is %d, expected %d to %d", bits, MIN_BITS, MAX_BITS);
    return false;
}

int32_t tusk_hash_feature(tusk_feature *f, int32_t bits) {
    uint32_t h = murmur3((const unsigned char *)f->name, f->length);
    bool negative = h >> 31;
    if (negative)
        f->value = -f->value;
    return (int32_t)((negative ? 0 - h : h) & ((1u << bits) - 1));
}
