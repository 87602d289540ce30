// Makes the rows of each of many small groups contiguous.
//
// A shuffled table leaves each group's rows in several short segments scattered over memory, and
// every pass waits for memory once per segment. The rows are copied once, many groups at a time so
// that their waits overlap. Later passes then read contiguous memory. The order of the rows is
// kept.
#include <cstring>
#include <utility>
#include <vector>

#include "../shared/pool.hpp"
#include "../shared/rows.hpp"
#include "../shared/segments.hpp"
#include "api.h"

namespace tusk {
namespace {

constexpr int SIDE_BY_SIDE = 16; // groups: about as many reads as a core can have in flight
constexpr int64_t LOOKS = 64;

void ask_for(const tusk_segment *s, size_t row_bytes) {
    const char *values = (const char *)tusk_dense_values(s);
    for (size_t at = 0; at < s->n_rows * row_bytes && at < 1024; at += 64)
        __builtin_prefetch(values + at);
    for (uint32_t at = 0; at < s->n_rows && at < 128; at += 8)
        __builtin_prefetch(tusk_labels(s) + at);
}

tusk_segment *new_segment(void *place, int64_t n_rows) {
    auto *s = (tusk_segment *)place;
    *s = tusk_segment{};
    s->cap_rows = (uint32_t)n_rows;
    return s;
}

void append(tusk_segment *to, const tusk_segment *from, tusk_shape shape, size_t row_bytes) {
    std::memcpy(tusk_labels(to) + to->n_rows, tusk_labels(from), from->n_rows * sizeof(double));
    std::memcpy((char *)tusk_dense_values(to) + to->n_rows * row_bytes, tusk_dense_values(from),
                from->n_rows * row_bytes);
    tusk_copy_extras(to, shape, to->n_rows, from, shape, 0, from->n_rows);
    to->n_rows += from->n_rows;
}

// Copies one segment of each of n groups in turn. The next segments of all groups are prefetched
// before any of them is copied.
void gather(const tusk_group *groups, int n, char *memory, const int64_t *place, tusk_group *out) {
    const tusk_segment *next[SIDE_BY_SIDE]; // NULL behind the last row
    size_t row_bytes = groups[0].dim * tusk_value_size(groups[0].kind);
    for (int i = 0; i < n; i++) {
        out[i] = groups[i];
        out[i].head = new_segment(memory + place[i], groups[i].n_rows);
        next[i] = groups[i].head;
        __builtin_prefetch(next[i]);
    }
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < n; i++)
            if (next[i]) {
                ask_for(next[i], row_bytes);
                __builtin_prefetch(next[i]->next);
            }
        for (int i = 0; i < n; i++)
            if (next[i]) {
                append(const_cast<tusk_segment *>(out[i].head), next[i], tusk_shape_of(out + i),
                       row_bytes);
                next[i] = out[i].head->n_rows < out[i].n_rows ? next[i]->next : nullptr;
                any = any || next[i];
            }
    }
}

// A segment of its own with the rows of another.
void copy_segment(tusk_segment *to, const tusk_segment *from, tusk_shape shape) {
    const size_t n = from->n_rows, size = tusk_value_size(shape.kind);
    to->n_rows = from->n_rows;
    std::memcpy(tusk_labels(to), tusk_labels(from), n * sizeof(double));
    if (!tusk_is_sparse(shape.kind)) {
        std::memcpy(tusk_dense_values(to), tusk_dense_values(from), n * (size_t)shape.dim * size);
    } else {
        to->nnz = from->nnz;
        std::memcpy(tusk_row_starts(to), tusk_row_starts(from), (n + 1) * sizeof(uint32_t));
        std::memcpy(tusk_indices(to), tusk_indices(from), from->nnz * sizeof(int32_t));
        std::memcpy(tusk_sparse_values(to), tusk_sparse_values(from), from->nnz * size);
    }
    tusk_copy_extras(to, shape, 0, from, shape, 0, from->n_rows);
}

int keep_group(const tusk_group &group, tusk_memory *memory, int threads, int64_t mark,
               tusk_group *kept) {
    const tusk_shape shape = tusk_shape_of(&group);
    std::vector<std::pair<tusk_segment *, const tusk_segment *>> pairs;
    *kept = group;
    kept->head = kept->wide = nullptr;
    tusk_segment **link = const_cast<tusk_segment **>(&kept->head);
    for (const tusk_segment *s : SegmentsOf(group)) {
        int failed = TUSK_OK;
        tusk_segment *to = tusk_segment_new(memory, shape, s->n_rows, s->nnz, &failed);
        if (!to)
            return failed == TUSK_DISK_FULL ? TK_DISK_FULL : TK_NO_MEMORY;
        *link = to;
        link = &to->next;
        pairs.emplace_back(to, s);
    }
    parallel_for((int64_t)pairs.size(), threads, [&](int64_t i) {
        if (!cancelled(mark))
            copy_segment(pairs[(size_t)i].first, pairs[(size_t)i].second, shape);
    });
    return cancelled(mark) ? TK_CANCELLED : TK_OK;
}

template <class T> void move_values(T *values, size_t rows, int64_t d, const double *origin) {
    for (size_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < d; j++)
            values[i * d + j] = (T)((double)values[i * d + j] - origin[j]);
}

template <class T>
void move_entries(T *values, const int32_t *index, size_t entries, const double *origin) {
    for (size_t k = 0; k < entries; k++)
        values[k] = (T)((double)values[k] - origin[index[k]]);
}

// Takes an origin off the labels and the features of a copy.
void move_group(const tusk_group &copy, const double *origin, int64_t d) {
    for (const tusk_segment *s : SegmentsOf(copy)) {
        double *labels = tusk_labels(s);
        for (uint32_t i = 0; i < s->n_rows; i++)
            labels[i] -= origin[d];
        const bool single = tusk_value_size(copy.kind) == sizeof(float);
        if (tusk_is_sparse(copy.kind) && single)
            move_entries((float *)tusk_sparse_values(s), tusk_indices(s), s->nnz, origin);
        else if (tusk_is_sparse(copy.kind))
            move_entries((double *)tusk_sparse_values(s), tusk_indices(s), s->nnz, origin);
        else if (single)
            move_values((float *)tusk_dense_values(s), s->n_rows, d, origin);
        else
            move_values((double *)tusk_dense_values(s), s->n_rows, d, origin);
    }
}

} // namespace
} // namespace tusk

int tk_scattered(const tk_pass *pass) {
    int64_t looks = std::min(pass->n_groups, tusk::LOOKS), found = 0;
    for (int64_t i = 0; i < looks; i++) {
        const tusk_group &group = pass->groups[i * pass->n_groups / looks];
        found += group.head->n_rows < group.n_rows;
    }
    return 2 * found > looks;
}

int tk_gather(const tk_pass *pass, void *memory, const int64_t *place, tusk_group *out) {
    using namespace tusk;
    return code_of([&] {
        int64_t parts = (pass->n_groups + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE;
        parallel_for(parts, pass->threads, [&](int64_t part) {
            int64_t first = part * SIDE_BY_SIDE;
            int n = (int)std::min<int64_t>(SIDE_BY_SIDE, pass->n_groups - first);
            gather(pass->groups + first, n, (char *)memory, place + first, out + first);
        });
        return (int)TK_OK;
    });
}

int tk_keep(const tk_pass *pass, tusk_memory *memory, tusk_group *kept) {
    using namespace tusk;
    std::memset(kept, 0, pass->n_groups * sizeof *kept);
    int code = code_of([&] {
        for (int64_t g = 0; g < pass->n_groups; g++)
            if (int failed = keep_group(pass->groups[g], memory, pass->threads, pass->cancel_mark,
                                        kept + g))
                return failed;
        return (int)TK_OK;
    });
    if (code)
        tk_free_groups(kept, pass->n_groups);
    return code;
}

int tk_moved(const tk_pass *pass, tusk_memory *memory, const double *origin, tusk_group *moved) {
    using namespace tusk;
    if (int code = tk_keep(pass, memory, moved))
        return code;
    int64_t d = pass->groups[0].dim;
    return code_of([&] {
        parallel_for(pass->n_groups, pass->threads,
                     [&](int64_t g) { move_group(moved[g], origin + g * (d + 1), d); });
        return (int)TK_OK;
    });
}
