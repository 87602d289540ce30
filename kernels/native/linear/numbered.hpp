// Numbers the rows of a pass, for algorithms that keep values per row. Row i of a group is the
// i-th row that the pass reads.
#pragma once

#include <vector>

#include "sparse.hpp"

namespace tusk {

// The chunks of a pass, the number of each chunk's first row in its group, and the number of rows
// of each group.
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

    // The number of the first row of c, which must be an element of `chunks`.
    int64_t first_of(const Chunk &c) const { return first[&c - chunks.data()]; }
};

} // namespace tusk
