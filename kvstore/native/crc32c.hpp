// CRC-32C (Castagnoli, RFC 3720 section B.4), by the processor's instruction where it has one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tusk {

// Continues from the CRC of what came before, 0 at the start.
std::uint32_t crc32c(std::uint32_t crc, const void *bytes, std::size_t n);

// The CRC of a payload under its key: a payload that lies under another key does not match.
inline std::uint32_t keyed_crc(std::uint64_t key, const void *bytes, std::size_t n) {
    return crc32c(crc32c(0, &key, sizeof key), bytes, n);
}

} // namespace tusk
