// Numbers the ids of rows with wide ids. The distinct ids are collected in parts: memory is
// proportional to their number, not to the entries, nor to the largest id.
#include <cstring>
#include <utility>

#include "../api.h"
#include "../row_hash.hpp"
#include "places.hpp"

namespace tusk {
namespace {

constexpr int64_t LEAST_FRESH = 1 << 20, MOST_FRESH = 1 << 24;

// Calls body(segment, its high bits or NULL) for the narrow segments, then for the wide ones.
template <class Body> int each_segment(const tusk_group *group, int64_t mark, Body &&body) {
    tusk_shape shape = tusk_shape_of(group);
    const std::pair<const tusk_segment *, bool> lists[] = {{group->head, false},
                                                           {group->wide, true}};
    for (auto [head, wide] : lists) {
        for (const tusk_segment *s = head; s; s = s->next) {
            if (cancelled(mark))
                return TK_CANCELLED;
            if (int code = body(s, wide ? tusk_high_bits(s, shape) : nullptr))
                return code;
        }
    }
    return TK_OK;
}

int64_t id_of(const int32_t *low, const int32_t *high, uint32_t i) {
    return high ? tusk_joined_id(high[i], low[i]) : low[i];
}

// The distinct ids so far, ascending, and those added since.
class Distinct {
public:
    Distinct(tusk_memory *memory, int64_t mark) : memory_(memory), mark_(mark) {}

    int add(int64_t id) {
        if (n_fresh_ == room_)
            if (int code = merge())
                return code;
        fresh_.data()[n_fresh_++] = id;
        return TK_OK;
    }

    int finish(tk_charged **out, int64_t **ids, int64_t *n) {
        if (int code = merge())
            return code;
        void *at;
        *n = n_;
        if (int code = tk_charged_new(memory_, n_ * (int64_t)sizeof(int64_t), out, &at))
            return code;
        *ids = (int64_t *)at;
        std::copy_n(found_[which_].data(), n_, *ids);
        return TK_OK;
    }

private:
    int merge() {
        int64_t *fresh = fresh_.data(), *end = fresh + n_fresh_;
        if (n_fresh_) {
            if (int code = sort_ids(fresh, end, 62, mark_))
                return code;
            end = std::unique(fresh, end);
            Charged<int64_t> &from = found_[which_], &to = found_[!which_];
            if (int code = to.take(memory_, (size_t)(n_ + (end - fresh))))
                return code;
            n_ = std::set_union(from.data(), from.data() + n_, fresh, end, to.data()) - to.data();
            which_ = !which_;
            n_fresh_ = 0;
        }
        int64_t room = std::clamp(n_, LEAST_FRESH, MOST_FRESH);
        if (room <= room_)
            return TK_OK;
        room_ = room;
        return fresh_.take(memory_, (size_t)room);
    }

    tusk_memory *memory_;
    int64_t mark_, n_ = 0, n_fresh_ = 0, room_ = 0;
    int which_ = 0;
    Charged<int64_t> found_[2], fresh_;
};

tusk_segment *numbered(const tusk_segment *s, const int32_t *high, const tusk_group &group,
                       tusk_shape shape, tusk_memory *memory, const Places<int64_t> &places,
                       int *code) {
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
        write_hashes(group, s, to, shape, high);
    const int32_t *low = tusk_indices(s);
    int32_t *place = tusk_indices(to);
    for (uint32_t i = 0; i < s->nnz; i++)
        place[i] = places.of(id_of(low, high, i));
    return to;
}

} // namespace
} // namespace tusk

int tk_vocabulary(const tusk_group *group, const int64_t *more, tusk_memory *memory, int64_t mark,
                  tk_charged **out, int64_t **ids, int64_t *n) {
    using namespace tusk;
    *out = nullptr;
    *ids = nullptr;
    return code_of([&]() -> int {
        Distinct found(memory, mark);
        for (int64_t i = 0; i < *n; i++)
            if (int code = found.add(more[i]))
                return code;
        int code = each_segment(group, mark, [&](const tusk_segment *s, const int32_t *high) {
            const int32_t *low = tusk_indices(s);
            for (uint32_t i = 0; i < s->nnz; i++)
                if (int failed = found.add(id_of(low, high, i)))
                    return failed;
            return (int)TK_OK;
        });
        return code ? code : found.finish(out, ids, n);
    });
}

int tk_number(const tusk_group *group, tusk_memory *memory, int64_t mark, const int64_t *ids,
              int64_t n, int32_t hashes, tusk_group *out) {
    using namespace tusk;
    *out = *group;
    out->extras |= hashes ? TUSK_FOLDS : 0;
    out->head = out->wide = nullptr;
    out->dim = (int32_t)n;
    int code = code_of([&]() -> int {
        Places<int64_t> places;
        if (int failed = places.build(memory, ids, n))
            return failed;
        tusk_segment first{}, *tail = &first;
        return each_segment(group, mark, [&](const tusk_segment *s, const int32_t *high) -> int {
            int failed = TUSK_OK;
            tusk_segment *next =
                numbered(s, high, *group, tusk_shape_of(out), memory, places, &failed);
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
