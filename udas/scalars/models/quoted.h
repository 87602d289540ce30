/* Quotation of a text in an error sentence. */
#ifndef TUSK_QUOTED_H
#define TUSK_QUOTED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The number of bytes of the UTF-8 character at `text`, of n that are left; 0: it is not UTF-8. */
static inline uint32_t tusk_character(const unsigned char *text, uint32_t n) {
    static const uint32_t LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t size = *text < 0x80 ? 1 : *text < 0xc0 ? 0 : *text < 0xe0 ? 2 : *text < 0xf0 ? 3 : 4;
    uint32_t code = *text & (0xff >> (size + 1));
    if (size < 2 || size > n || *text > 0xf4)
        return size == 1 && n;
    for (uint32_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    return code >= LEAST[size] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? size : 0;
}

/* Replaces bytes that are not UTF-8, such as those of a forged model's names, by question
 * marks: clients read sentences as UTF-8. */
static inline void tusk_make_utf8(char *text) {
    size_t left = strlen(text);
    while (left) {
        uint32_t n = left < 4 ? (uint32_t)left : 4;
        uint32_t size = tusk_character((const unsigned char *)text, n);
        if (!size) {
            *text = '?';
            size = 1;
        }
        text += size;
        left -= size;
    }
}

/* At most `limit` bytes, in whole UTF-8 characters. */
static inline int tusk_quoted(const char *text, size_t length, size_t limit) {
    if (length <= limit)
        return (int)length;
    while (limit && (text[limit] & 0xc0) == 0x80)
        limit--;
    return (int)limit;
}

#endif
