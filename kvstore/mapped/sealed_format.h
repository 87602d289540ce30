/* The layout of a sealed file (kvstore/sealed.py), little-endian. */
#ifndef TUSK_SEALED_FORMAT_H
#define TUSK_SEALED_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define SEALED_VERSION 1
#define SEALED_LARGEST_SHIFT 16
#define SEALED_DENSE 0xffffffffu

typedef struct sealed_header {
    char magic[8]; /* "TUSKSEAL" */
    uint32_t version;
    uint32_t weight_size; /* 4 or 8 */
    uint32_t shift;       /* a block holds 2^shift weights */
    uint32_t spare[2];
    uint32_t crc; /* of all fields before it */
} sealed_header;

/* Where a block of weights lies. Its bytes are the shorter of
 *   dense:  2^shift weights
 *   pairs:  the weights whose bits are not all 0, then their slots (uint16), ascending
 * followed by zeros up to a multiple of 8, which the CRC covers. */
typedef struct sealed_entry {
    uint64_t block;  /* its number: the first feature id >> shift */
    uint64_t offset; /* position in the file, a multiple of 8 */
    uint32_t count;  /* 0: all zeros; SEALED_DENSE; otherwise the number of pairs */
    uint32_t crc;    /* of the block number and the block's bytes */
} sealed_entry;

typedef struct sealed_footer {
    char magic[8]; /* "TUSKFOOT" */
    uint64_t dimension;
    uint64_t nonzero;
    uint64_t directory; /* where the blocks end and the entries begin */
    uint64_t n_entries;
    uint64_t index, index_length;
    uint64_t metadata, metadata_length;
    uint32_t direct; /* entry i is for block i */
    uint32_t directory_crc, index_crc, metadata_crc;
    uint8_t digest[32]; /* SHA-256 of all bytes before it */
    uint32_t spare;
    uint32_t crc; /* of the footer's fields before it */
} sealed_footer;

static inline size_t sealed_block_length(uint32_t count, uint32_t shift, size_t weight_size) {
    size_t length = count == SEALED_DENSE ? weight_size << shift
                                          : (size_t)count * (weight_size + sizeof(uint16_t));
    return (length + 7) / 8 * 8;
}

#endif
