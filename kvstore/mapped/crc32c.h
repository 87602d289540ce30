/* CRC-32C (Castagnoli, RFC 3720 section B.4), with the processor's instruction if it has one. */
#ifndef TUSK_CRC32C_H
#define TUSK_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Continues from the CRC of the preceding bytes; start with 0. */
uint32_t tusk_crc32c(uint32_t crc, const void *bytes, size_t n);

#ifdef __cplusplus
}
#endif
#endif
