// The rows of a pass by number, for algorithms that keep something for each row: number i of a
// group is the i-th of those that the pass reads, in its order.
#pragma once

#include <vector>

#include "sparse.hpp"

namespace tusk {

// Chunks with the number of their first row in the group, and how many rows each group has.
struct Numbered {
    std::vector<Chunk> chunks;
    std::vector<int64_t> first;
    std::vector<int64_t> n_rows; // (n_groups,)

    explicit Numbered(const tk_pass *pass)
        : Numbered(pass, make_chunks(pass, chunk_rows_for(pass))) {}
    Numbered(const tk_pass *pass, std::vector<Chunk> some)
        : chunks(std::move(some)), n_rows(pass->n_groups, 0) {
        first.reserve(chunks.size());
        for (const Chunk &c : chunks) {
            first.push_back(n_rows[c.group]);
            n_rows[c.group] += c.rows;
        }
    }

    // Of one of `chunks`, by itself.
    int64_t first_of(const Chunk &c) const { return first[&c - chunks.data()]; }
};

} // namespace tusk
