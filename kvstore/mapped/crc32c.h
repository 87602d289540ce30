/* CRC-32C (Castagnoli, RFC 3720 section B.4), by the processor's instruction where it has one. */
#ifndef TUSK_CRC32C_H
#define TUSK_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Continues from the CRC of what came before, 0 at the start. */
uint32_t tusk_crc32c(uint32_t crc, const void *bytes, size_t n);

#ifdef __cplusplus
}
#endif
#endif
