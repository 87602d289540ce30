// CRC-32C of payloads and blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../mapped/crc32c.h"

namespace tusk {

inline std::uint32_t crc32c(std::uint32_t crc, const void *bytes, std::size_t n) {
    return tusk_crc32c(crc, bytes, n);
}

// The CRC of a payload with its key, so that a payload stored under another key does not match.
inline std::uint32_t keyed_crc(std::uint64_t key, const void *bytes, std::size_t n) {
    return crc32c(crc32c(0, &key, sizeof key), bytes, n);
}

} // namespace tusk
