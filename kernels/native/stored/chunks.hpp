// Chunks of rows. Their entries are indices into the payloads of a model in a store, not features.
// Indices number the weights of a chunk's payloads in one virtual array. The payload of key k
// begins at index first[k], a multiple of 2^shift. A table has the address of every 2^shift-th
// index, so a weight takes two loads wherever its payload is in memory. Gaps between payloads use
// up indices but no memory. The larger 2^shift, the smaller the table.
#pragma once

#include <memory>
#include <vector>

#include "../epochs/order.hpp"
#include "api.h"

namespace tusk {

// Data that a chunk needs only during mapping.
struct Mapping {
    std::vector<int32_t> ids;    // distinct, in order of first occurrence
    std::vector<uint32_t> entry; // number of the id, by entry
    std::vector<uint32_t> key;   // number of the key, by id
    std::vector<int32_t> slot;   // by id
};

struct StoredChunk {
    std::vector<Run> pieces; // neighbouring rows, from one or several segments
    int64_t row = 0, rows = 0, entries = 0, features = 0, weights = 0;
    int shift = 0;
    bool wide = false; // one row whose payloads do not fit together (wide.hpp)
    std::vector<uint64_t> keys;
    std::vector<uint32_t> widths;
    std::unique_ptr<Mapping> mapping;

    int64_t pages_of(uint32_t width) const {
        return ((int64_t)width + ((int64_t)1 << shift) - 1) >> shift;
    }
};

// Cuts pieces into pieces of at most `rows` rows.
inline std::vector<Run> cut(const std::vector<Run> &pieces, uint32_t rows) {
    std::vector<Run> out;
    for (const Run &p : pieces)
        for (uint32_t at = 0; at < p.n; at += rows)
            out.push_back({p.segment, p.first + at, std::min(rows, p.n - at)});
    return out;
}

} // namespace tusk

struct tk_chunks {
    tk_cut cut;
    size_t value_size; // bytes of a feature's value in the rows
    std::vector<tusk::StoredChunk> list;
    std::vector<size_t> unmapped; // chunks still to map; the last one is next
    std::vector<size_t> batch;    // chunks that are being mapped
};
