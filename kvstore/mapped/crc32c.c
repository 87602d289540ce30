#include "crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* bit-reflected */

static uint32_t table[8][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
        table[0][byte] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            table[k][byte] = (table[k - 1][byte] >> 8) ^ table[0][table[k - 1][byte] & 0xff];
}

/* Eight bytes per step ("slicing by 8"), for processors without the instruction. */
static uint32_t by_table(uint32_t crc, const uint8_t *at, size_t n) {
    pthread_once(&made, make_table);
    for (; n >= 8; n -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        word ^= crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= table[7 - k][(word >> (8 * k)) & 0xff];
    }
    for (; n; n--)
        crc = (crc >> 8) ^ table[0][(crc ^ *at++) & 0xff];
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *at,
                                                                 size_t n) {
    uint64_t wide = crc;
    for (; n >= 8; n -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; n; n--)
        crc = __builtin_ia32_crc32qi(crc, *at++);
    return crc;
}

uint32_t tusk_crc32c(uint32_t crc, const void *bytes, size_t n) {
    return ~(__builtin_cpu_supports("sse4.2") ? by_instruction(~crc, bytes, n)
                                              : by_table(~crc, bytes, n));
}
#else
uint32_t tusk_crc32c(uint32_t crc, const void *bytes, size_t n) {
    return ~by_table(~crc, bytes, n);
}
#endif
