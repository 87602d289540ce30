// Chunks of rows whose entries name places in the payloads of a model in a store, instead of
// features.
//
// The payloads of a chunk's keys lie, in thought, one behind the other: key k's begins at place
// first[k], a multiple of 2^shift. A table has the address of every 2^shift-th place, so a weight
// is two loads away wherever its payload is in memory. Room between payloads is but numbers: the
// larger 2^shift, the smaller the table.
#pragma once

#include <memory>
#include <vector>

#include "order.hpp"

namespace tusk {

// What a chunk needs while it is mapped, and not later.
struct Mapping {
    std::vector<int32_t> ids;    // distinct, in the order in which they come
    std::vector<uint32_t> entry; // of each entry the number of its id
    std::vector<uint32_t> key;   // of each id the number of its key
    std::vector<int32_t> slot;   // of each id
};

struct StoredChunk {
    std::vector<Run> pieces; // neighbouring rows, of one segment or several
    int64_t row = 0, rows = 0, entries = 0, features = 0, weights = 0;
    int shift = 0;
    std::vector<uint64_t> keys;
    std::vector<uint32_t> widths;
    std::unique_ptr<Mapping> mapping;

    int64_t pages_of(uint32_t width) const {
        return ((int64_t)width + ((int64_t)1 << shift) - 1) >> shift;
    }
};

// Pieces of at most `rows` rows.
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
    std::vector<tusk::StoredChunk> list;
    std::vector<size_t> unmapped; // the next one last
    std::vector<size_t> batch;    // those that are mapped now
};
