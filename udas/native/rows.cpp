#include "rows.hpp"

namespace tusk {

std::vector<Chunk> make_chunks(const tk_pass *pass,
                               const std::function<int64_t(int64_t group)> &chunk_rows) {
    std::vector<Chunk> chunks;
    int64_t number = 0;
    for (int64_t g = 0; g < pass->n_groups; g++) {
        const tusk_segment *s = pass->groups[g].head;
        int64_t left = pass->groups[g].n_rows;
        uint32_t offset = 0;
        int64_t most = chunk_rows(g);
        while (left > 0) {
            int64_t rows = std::min(left, most);
            if (number++ % pass->stride == 0)
                chunks.push_back({g, s, offset, rows});
            left -= rows;
            for (int64_t skip = rows; skip > 0 && left > 0;) {
                int64_t step = std::min<int64_t>(skip, s->n_rows - offset);
                skip -= step;
                offset += (uint32_t)step;
                if (offset == s->n_rows) {
                    s = s->next;
                    offset = 0;
                }
            }
        }
        number = 0;
    }
    return chunks;
}

} // namespace tusk

extern "C" int64_t tk_nonzeros(const tusk_group *group) {
    int64_t total = 0;
    for (const tusk_segment *s = group->head; s; s = s->next)
        total += s->nnz;
    return total;
}
