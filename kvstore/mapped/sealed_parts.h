/* Declarations shared by the two halves of the reader. */
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
    /* For each entry, the address of its checked block, with PAIRS in the lowest bit; 0: not
     * read yet, or released since. Threads read and write it at any time: every value they can
     * see leads to the same bytes. */
    uintptr_t *blocks;
    int64_t touched; /* blocks read since the file was last released */
    int64_t room;    /* number of blocks that may be mapped */
    struct stat identity;
    char digest[65];
    char *label;
};

#define PAIRS ((uintptr_t)1)
#define NO_BLOCK ((uintptr_t)2)

#endif
