// Renumbers sparse rows that have few but large ids. Arrays of a training then have one item per
// id that occurs, instead of one per possible id.
#include <cstring>

#include "../api.h"
#include "../row_hash.hpp"
#include "places.hpp"

namespace tusk {
namespace {

constexpr int64_t BITS_AN_ENTRY = 64; // limit for the bitmap; if it needs more, ids are sorted

template <class Body> int each_segment(const tusk_group *group, int64_t mark, Body &&body) {
    for (const tusk_segment *s = group->head; s; s = s->next) {
        if (cancelled(mark))
            return TK_CANCELLED;
        if (int code = body(s))
            return code;
    }
    return TK_OK;
}

struct Room {
    tusk_memory *memory;
    tk_charged **out;
    int32_t **ids;
    int64_t *n;

    int take(int64_t count) const {
        void *at;
        *n = count;
        int code = tk_charged_new(memory, count * (int64_t)sizeof(int32_t), out, &at);
        if (!code)
            *ids = (int32_t *)at;
        return code;
    }
};

int by_bitmap(const tusk_group *group, int64_t mark, const Room &room) {
    int64_t words = ((int64_t)group->dim + 63) / 64;
    Charged<uint64_t> bits;
    if (int code = bits.take(room.memory, words))
        return code;
    uint64_t *word = bits.data();
    std::fill_n(word, words, 0);
    int code = each_segment(group, mark, [&](const tusk_segment *s) {
        const int32_t *id = tusk_indices(s);
        for (uint32_t i = 0; i < s->nnz; i++)
            word[id[i] >> 6] |= uint64_t{1} << (id[i] & 63);
        return TK_OK;
    });
    if (code)
        return code;
    int64_t n = 0;
    for (int64_t w = 0; w < words; w++)
        n += std::popcount(word[w]);
    if ((code = room.take(n)))
        return code;
    int32_t *to = *room.ids;
    for (int64_t w = 0; w < words; w++)
        for (uint64_t left = word[w]; left; left &= left - 1)
            *to++ = (int32_t)(w * 64 + std::countr_zero(left));
    return TK_OK;
}

int by_sorting(const tusk_group *group, int64_t entries, int64_t mark, const Room &room) {
    Charged<int32_t> all;
    if (int code = all.take(room.memory, entries))
        return code;
    int32_t *end = all.data();
    int code = each_segment(group, mark, [&](const tusk_segment *s) {
        std::memcpy(end, tusk_indices(s), s->nnz * sizeof *end);
        end += s->nnz;
        return TK_OK;
    });
    if (code || (code = sort_ids(all.data(), end, 30, mark)))
        return code;
    end = std::unique(all.data(), end);
    if ((code = room.take(end - all.data())))
        return code;
    std::copy(all.data(), end, *room.ids);
    return TK_OK;
}

tusk_segment *copy_of(const tusk_segment *s, const tusk_group &group, tusk_shape shape,
                      tusk_memory *memory, const Places<int32_t> &places, int *code) {
    tusk_segment *to = tusk_segment_new(memory, shape, s->n_rows, s->nnz, code);
    if (!to)
        return nullptr;
    to->n_rows = s->n_rows;
    to->nnz = s->nnz;
    std::memcpy(tusk_labels(to), tusk_labels(s), s->n_rows * sizeof(double));
    std::memcpy(tusk_row_starts(to), tusk_row_starts(s), (s->n_rows + 1) * sizeof(uint32_t));
    std::memcpy(tusk_sparse_values(to), tusk_sparse_values(s),
                s->nnz * tusk_value_size(shape.kind));
    tusk_copy_extras(to, shape, 0, s, tusk_shape_of(&group), 0, s->n_rows);
    if (shape.extras != group.extras)
        write_hashes(group, s, to, shape);
    const int32_t *id = tusk_indices(s);
    int32_t *place = tusk_indices(to);
    for (uint32_t i = 0; i < s->nnz; i++)
        place[i] = places.of(id[i]);
    return to;
}

} // namespace
} // namespace tusk

int tk_ids_that_occur(const tusk_group *group, tusk_memory *memory, int64_t mark, tk_charged **out,
                      int32_t **ids, int64_t *n) {
    using namespace tusk;
    *out = nullptr;
    *ids = nullptr;
    Room room{memory, out, ids, n};
    return code_of([&] {
        int64_t entries = tk_nonzeros(group);
        return group->dim <= BITS_AN_ENTRY * entries ? by_bitmap(group, mark, room)
                                                     : by_sorting(group, entries, mark, room);
    });
}

int tk_renumber(const tusk_group *group, tusk_memory *memory, int64_t mark, const int32_t *ids,
                int64_t n, int32_t hashes, tusk_group *out) {
    using namespace tusk;
    *out = *group;
    out->head = nullptr;
    out->dim = (int32_t)n;
    out->extras |= hashes ? TUSK_FOLDS : 0;
    int code = code_of([&] {
        Places<int32_t> places;
        if (int failed = places.build(memory, ids, n))
            return failed;
        tusk_segment first{}, *tail = &first;
        return each_segment(group, mark, [&](const tusk_segment *s) -> int {
            int failed = TUSK_OK;
            tusk_segment *next = copy_of(s, *group, tusk_shape_of(out), memory, places, &failed);
            if (!next)
                return failed == TUSK_DISK_FULL ? TK_DISK_FULL : TK_NO_MEMORY;
            tail->next = next;
            tail = next;
            out->head = first.next;
            return TK_OK;
        });
    });
    if (code)
        tk_free_groups(out, 1);
    return code;
}
