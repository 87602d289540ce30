/* What the two halves of the reader share. */
#ifndef TUSK_SEALED_PARTS_H
#define TUSK_SEALED_PARTS_H

#include <sys/stat.h>

#include "sealed_file.h"
#include "sealed_format.h"

struct sealed_file {
    int descriptor;
    const uint8_t *base;
    size_t size;
    sealed_footer footer;
    uint32_t shift, weight_size;
    const sealed_entry *entries;
    /* Where the block of each entry lies, once it was found right, PAIRS in its lowest bit; 0: not
     * read yet, or let go since. Threads read and write it at any time: what they see leads to the
     * same bytes. */
    uintptr_t *blocks;
    int64_t touched; /* blocks read since the file was let go */
    int64_t room;    /* of them that may be mapped */
    struct stat identity;
    char digest[65];
    char *label;
};

#define PAIRS ((uintptr_t)1)
#define NO_BLOCK ((uintptr_t)2)

#endif
