#include "crc32c.hpp"

#include <array>
#include <cstring>

#include "api.h"

namespace tusk {
namespace {

constexpr std::uint32_t POLYNOMIAL = 0x82f63b78; // reflected

using Table = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Table make_table() {
    Table table{};
    for (std::uint32_t byte = 0; byte < 256; byte++) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
        table[0][byte] = crc;
    }
    for (std::size_t k = 1; k < 8; k++)
        for (std::size_t byte = 0; byte < 256; byte++)
            table[k][byte] = (table[k - 1][byte] >> 8) ^ table[0][table[k - 1][byte] & 0xff];
    return table;
}

constexpr Table TABLE = make_table();

// Eight bytes a step ("slicing by 8"), for processors without the instruction.
std::uint32_t by_table(std::uint32_t crc, const std::uint8_t *at, std::size_t n) {
    for (; n >= 8; n -= 8, at += 8) {
        std::uint64_t word;
        std::memcpy(&word, at, 8);
        word ^= crc;
        crc = 0;
        for (std::size_t k = 0; k < 8; k++)
            crc ^= TABLE[7 - k][(word >> (8 * k)) & 0xff];
    }
    for (; n; n--)
        crc = (crc >> 8) ^ TABLE[0][(crc ^ *at++) & 0xff];
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t
by_instruction(std::uint32_t crc, const std::uint8_t *at, std::size_t n) {
    std::uint64_t wide = crc;
    for (; n >= 8; n -= 8, at += 8) {
        std::uint64_t word;
        std::memcpy(&word, at, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = static_cast<std::uint32_t>(wide);
    for (; n; n--)
        crc = __builtin_ia32_crc32qi(crc, *at++);
    return crc;
}

bool has_instruction() {
    static const bool has = __builtin_cpu_supports("sse4.2");
    return has;
}
#else
bool has_instruction() {
    return false;
}
std::uint32_t by_instruction(std::uint32_t crc, const std::uint8_t *at, std::size_t n) {
    return by_table(crc, at, n);
}
#endif

} // namespace

std::uint32_t crc32c(std::uint32_t crc, const void *bytes, std::size_t n) {
    auto *at = static_cast<const std::uint8_t *>(bytes);
    return ~(has_instruction() ? by_instruction(~crc, at, n) : by_table(~crc, at, n));
}

} // namespace tusk

uint32_t ks_crc(uint32_t crc, const void *bytes, int64_t n) {
    return tusk::crc32c(crc, bytes, static_cast<std::size_t>(n));
}
