/* How much of a text an error sentence quotes. */
#ifndef TUSK_QUOTED_H
#define TUSK_QUOTED_H

#include <stddef.h>

/* At most `limit` bytes, in whole UTF-8 characters. */
static inline int tusk_quoted(const char *text, size_t length, size_t limit) {
    if (length <= limit)
        return (int)length;
    while (limit && (text[limit] & 0xc0) == 0x80)
        limit--;
    return (int)limit;
}

#endif
