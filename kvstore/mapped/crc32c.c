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
#define STRETCH 1024 /* bytes of one of three neighbouring stretches */

/* A CRC after STRETCH further zero bytes: the sum of the table entries of its bytes. */
static uint32_t shift[4][256];
static pthread_once_t shifts = PTHREAD_ONCE_INIT;

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

static void make_shift(void) {
    static const uint8_t zeros[STRETCH];
    uint32_t of_bit[32];
    for (int bit = 0; bit < 32; bit++)
        of_bit[bit] = by_instruction(UINT32_C(1) << bit, zeros, STRETCH);
    for (int k = 0; k < 4; k++)
        for (int byte = 0; byte < 256; byte++)
            for (int bit = 0; bit < 8; bit++)
                shift[k][byte] ^= byte >> bit & 1 ? of_bit[8 * k + bit] : 0;
}

static uint32_t shifted(uint32_t crc) {
    return shift[0][crc & 0xff] ^ shift[1][crc >> 8 & 0xff] ^ shift[2][crc >> 16 & 0xff] ^
           shift[3][crc >> 24];
}

/* Three stretches at a time, because the instruction takes three cycles and a processor starts one
 * in each. CRCs add up: that of the first stretch is shifted over the second, and so on. */
__attribute__((target("sse4.2"))) static uint32_t by_stretches(uint32_t crc, const uint8_t *at,
                                                               size_t n) {
    if (n >= 3 * STRETCH)
        pthread_once(&shifts, make_shift);
    for (; n >= 3 * STRETCH; n -= 3 * STRETCH, at += 3 * STRETCH) {
        uint64_t a = crc, b = 0, c = 0;
        for (int i = 0; i < STRETCH; i += 8) {
            uint64_t word[3];
            memcpy(word, at + i, 8);
            memcpy(word + 1, at + STRETCH + i, 8);
            memcpy(word + 2, at + 2 * STRETCH + i, 8);
            a = __builtin_ia32_crc32di(a, word[0]);
            b = __builtin_ia32_crc32di(b, word[1]);
            c = __builtin_ia32_crc32di(c, word[2]);
        }
        crc = shifted(shifted((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
    }
    return by_instruction(crc, at, n);
}

uint32_t tusk_crc32c(uint32_t crc, const void *bytes, size_t n) {
    return ~(__builtin_cpu_supports("sse4.2") ? by_stretches(~crc, bytes, n)
                                              : by_table(~crc, bytes, n));
}
#else
uint32_t tusk_crc32c(uint32_t crc, const void *bytes, size_t n) {
    return ~by_table(~crc, bytes, n);
}
#endif
