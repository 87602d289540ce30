// Prepares rows for a device: contiguous copies of them, and the order in which an epoch visits
// them.
#include <cstring>
#include <unordered_map>
#include <vector>

#include "../epochs/order.hpp"
#include "api.h"

namespace tusk {
namespace {

constexpr int64_t PIECE_BYTES = 1 << 20;

struct Piece {
    const tusk_segment *segment;
    int64_t offset, rows, to; // `to`: index in the copy
};

// The rows of all groups at indices first .. end - 1, in pieces of at most `most` rows.
std::vector<Piece> pieces_of(const tk_pass *pass, const int64_t *start, int64_t first, int64_t end,
                             int64_t most) {
    std::vector<Piece> out;
    int64_t g = std::upper_bound(start, start + pass->n_groups, first) - start - 1;
    for (g = std::max<int64_t>(g, 0); g < pass->n_groups && start[g] < end; g++) {
        int64_t place = start[g], last = std::min(end, start[g] + pass->groups[g].n_rows);
        for (const tusk_segment *s = pass->groups[g].head; s && place < last; s = s->next) {
            int64_t stop = std::min<int64_t>(last, place + s->n_rows);
            for (int64_t at = std::max(place, first); at < stop; at += most)
                out.push_back({s, at - place, std::min(most, stop - at), at - first});
            place += s->n_rows;
        }
    }
    return out;
}

// Sets the rows between the pieces to 0.
void clear_gaps(const std::vector<Piece> &pieces, int64_t n_rows, size_t row_bytes, char *values,
                double *labels) {
    int64_t at = 0;
    auto clear = [&](int64_t to) {
        if (to <= at)
            return;
        std::memset(values + at * row_bytes, 0, (to - at) * row_bytes);
        std::memset(labels + at, 0, (to - at) * sizeof(double));
    };
    for (const Piece &p : pieces) {
        clear(p.to);
        at = p.to + p.rows;
    }
    clear(n_rows);
}

// The index in the group of each segment's first row.
std::unordered_map<const tusk_segment *, int64_t> first_rows(const tusk_group &group) {
    std::unordered_map<const tusk_segment *, int64_t> out;
    int64_t row = 0;
    for (const tusk_segment *s : SegmentsOf(group)) {
        out[s] = row;
        row += s->n_rows;
    }
    return out;
}

} // namespace
} // namespace tusk

int tk_copy_rows(const tk_pass *pass, const int64_t *start, int64_t first, int64_t n_rows,
                 void *values, double *labels) {
    using namespace tusk;
    return code_of([&] {
        size_t row = pass->groups[0].dim * tusk_value_size(pass->groups[0].kind);
        int64_t most = std::max<int64_t>(1, PIECE_BYTES / (int64_t)row);
        auto pieces = pieces_of(pass, start, first, first + n_rows, most);
        clear_gaps(pieces, n_rows, row, (char *)values, labels);
        int64_t together = std::max<int64_t>(1, (int64_t)pieces.size() * most / n_rows);
        int64_t tasks = ((int64_t)pieces.size() + together - 1) / together;
        parallel_for(tasks, pass->threads, [&](int64_t task) {
            if (cancelled(pass->cancel_mark))
                return;
            int64_t end = std::min<int64_t>((int64_t)pieces.size(), (task + 1) * together);
            for (int64_t i = task * together; i < end; i++) {
                const Piece &p = pieces[i];
                std::memcpy((char *)values + p.to * row,
                            (const char *)tusk_dense_values(p.segment) + p.offset * row,
                            p.rows * row);
                std::memcpy(labels + p.to, tusk_labels(p.segment) + p.offset,
                            p.rows * sizeof(double));
            }
        });
        return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
    });
}

int tk_runs(const tk_pass *pass, const tk_epoch *epoch, int64_t *offset, int64_t *places,
            int32_t *rows) {
    using namespace tusk;
    return code_of([&] {
        parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
            auto runs = make_runs(pass->groups[g], epoch, pass->stride);
            if (!places) {
                offset[g + 1] = (int64_t)runs.size();
                return;
            }
            auto first = first_rows(pass->groups[g]);
            for (size_t i = 0; i < runs.size(); i++) {
                places[offset[g] + i] = first.at(runs[i].segment) + runs[i].first;
                rows[offset[g] + i] = (int32_t)runs[i].n;
            }
        });
        if (places)
            return (int)TK_OK;
        offset[0] = 0;
        for (int64_t g = 0; g < pass->n_groups; g++)
            offset[g + 1] += offset[g];
        return (int)TK_OK;
    });
}
