// Makes the rows of each of many small groups contiguous.
//
// A shuffled table leaves each group's rows in several short segments scattered over memory, and
// every pass waits for memory once per segment. The rows are copied once, many groups at a time so
// that their waits overlap. Later passes then read contiguous memory. The order of the rows is
// kept.
#include <algorithm>
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
    const tusk_segment *next[SIDE_BY_SIDE]; // NULL after the last row
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

// The origin of the features of a group's rows, by feature, and the features where it is not 0.
struct Origin {
    const double *by; // nullptr: all are 0
    std::vector<int32_t> ids;

    Origin(const double *by, const tusk_group &group) : by(by) {
        for (int64_t id = 0; by && tusk_is_sparse(group.kind) && id < group.dim; id++)
            if (by[id] != 0)
                ids.push_back((int32_t)id);
    }

    // The index of a feature whose origin is not 0.
    size_t place(int32_t id) const {
        return (size_t)(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin());
    }
};

// Calls entry(k, is the first of its feature in the row) for the entries of sparse rows whose
// features move, and lacking(id) for the features that a row lacks, then row(i) at the end of row
// i.
template <class Entry, class Lacking, class Row>
void for_moved(const tusk_segment *s, const Origin &origin, Entry entry, Lacking lacking,
               Row row) {
    const uint32_t *start = tusk_row_starts(s);
    const int32_t *index = tusk_indices(s);
    std::vector<int64_t> latest(origin.ids.size(), -1);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        for (uint32_t k = start[i]; k < start[i + 1]; k++)
            if (origin.by[index[k]] != 0)
                entry(k, std::exchange(latest[origin.place(index[k])], i) != (int64_t)i);
        for (size_t j = 0; j < latest.size(); j++)
            if (latest[j] != (int64_t)i)
                lacking(origin.ids[j]);
        row(i);
    }
}

// Number of entries that sparse rows gain by the move.
uint32_t lacking(const tusk_segment *s, const Origin &origin) {
    uint32_t n = 0;
    if (!origin.ids.empty())
        for_moved(s, origin, [](uint32_t, bool) {}, [&](int32_t) { n++; }, [](uint32_t) {});
    return n;
}

// Copies sparse rows minus the origin.
template <class T>
void copy_moved(tusk_segment *to, const tusk_segment *from, const Origin &origin) {
    const uint32_t *start = tusk_row_starts(from);
    uint32_t *ends = tusk_row_starts(to), at = 0, done = 0;
    int32_t *index = tusk_indices(to);
    T *value = (T *)tusk_sparse_values(to);
    const T *given = (const T *)tusk_sparse_values(from);
    auto copy_until = [&](uint32_t end) {
        std::copy(tusk_indices(from) + done, tusk_indices(from) + end, index + at);
        std::copy(given + done, given + end, value + at);
        at += end - done;
        done = end;
    };
    ends[0] = 0;
    for_moved(
        from, origin,
        [&](uint32_t k, bool first) {
            copy_until(k + 1);
            if (first)
                value[at - 1] = (T)((double)given[k] - origin.by[index[at - 1]]);
        },
        [&](int32_t id) {
            copy_until(start[(size_t)(ends - tusk_row_starts(to)) + 1]);
            index[at] = id;
            value[at++] = (T)-origin.by[id];
        },
        [&](uint32_t i) {
            copy_until(start[i + 1]);
            *++ends = at;
        });
    to->nnz = at;
}

// Copies the rows of a segment, minus an origin if they are sparse.
void copy_segment(tusk_segment *to, const tusk_segment *from, tusk_shape shape,
                  const Origin &origin) {
    const size_t n = from->n_rows, size = tusk_value_size(shape.kind);
    to->n_rows = from->n_rows;
    std::memcpy(tusk_labels(to), tusk_labels(from), n * sizeof(double));
    if (!tusk_is_sparse(shape.kind)) {
        std::memcpy(tusk_dense_values(to), tusk_dense_values(from), n * (size_t)shape.dim * size);
    } else if (origin.ids.empty()) {
        to->nnz = from->nnz;
        std::memcpy(tusk_row_starts(to), tusk_row_starts(from), (n + 1) * sizeof(uint32_t));
        std::memcpy(tusk_indices(to), tusk_indices(from), from->nnz * sizeof(int32_t));
        std::memcpy(tusk_sparse_values(to), tusk_sparse_values(from), from->nnz * size);
    } else if (size == sizeof(float)) {
        copy_moved<float>(to, from, origin);
    } else {
        copy_moved<double>(to, from, origin);
    }
    tusk_copy_extras(to, shape, 0, from, shape, 0, from->n_rows);
}

struct Copied {
    const tusk_segment *from;
    uint32_t more; // number of additional entries
    tusk_segment *to;
};

int keep_group(const tusk_group &group, tusk_memory *memory, int threads, int64_t mark,
               const double *by, tusk_group *kept) {
    const tusk_shape shape = tusk_shape_of(&group);
    const Origin origin(by, group);
    std::vector<Copied> segments;
    *kept = group;
    kept->head = kept->wide = nullptr;
    for (const tusk_segment *s : SegmentsOf(group))
        segments.push_back({s, 0, nullptr});
    const int64_t n = (int64_t)segments.size();
    if (!origin.ids.empty())
        parallel_for(n, threads, [&](int64_t i) {
            segments[(size_t)i].more = lacking(segments[(size_t)i].from, origin);
        });
    tusk_segment **link = const_cast<tusk_segment **>(&kept->head);
    for (Copied &one : segments) {
        int failed = TUSK_OK;
        one.to =
            tusk_segment_new(memory, shape, one.from->n_rows, one.from->nnz + one.more, &failed);
        if (!one.to)
            return failed == TUSK_DISK_FULL ? TK_DISK_FULL : TK_NO_MEMORY;
        *link = one.to;
        link = &one.to->next;
    }
    parallel_for(n, threads, [&](int64_t i) {
        if (!cancelled(mark))
            copy_segment(segments[(size_t)i].to, segments[(size_t)i].from, shape, origin);
    });
    return cancelled(mark) ? TK_CANCELLED : TK_OK;
}

// Copies the rows of each group, which own their segments, minus an origin (n_groups, d + 1) if
// they are sparse and there is one.
// The account of copies that no database has asked for.
tusk_memory *own_account() {
    static tusk_memory *const found = tusk_memory_new();
    return found;
}

int keep_groups(const tk_pass *pass, tusk_memory *memory, const double *origin, tusk_group *kept) {
    std::memset(kept, 0, pass->n_groups * sizeof *kept);
    if (!memory && !(memory = own_account()))
        return TK_NO_MEMORY;
    const int64_t p = pass->groups[0].dim + 1;
    int code = code_of([&] {
        for (int64_t g = 0; g < pass->n_groups; g++)
            if (int failed = keep_group(pass->groups[g], memory, pass->threads, pass->cancel_mark,
                                        origin ? origin + g * p : nullptr, kept + g))
                return failed;
        return (int)TK_OK;
    });
    if (code)
        tk_free_groups(kept, pass->n_groups);
    return code;
}

template <class T> void move_values(T *values, size_t rows, int64_t d, const double *origin) {
    for (size_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < d; j++)
            values[i * d + j] = (T)((double)values[i * d + j] - origin[j]);
}

// Subtracts an origin from the labels and the dense features of a copy.
void move_group(const tusk_group &copy, const double *origin, int64_t d) {
    for (const tusk_segment *s : SegmentsOf(copy)) {
        double *labels = tusk_labels(s);
        for (uint32_t i = 0; i < s->n_rows; i++)
            labels[i] -= origin[d];
        if (tusk_is_sparse(copy.kind))
            continue;
        if (tusk_value_size(copy.kind) == sizeof(float))
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
    return tusk::keep_groups(pass, memory, nullptr, kept);
}

int tk_moved(const tk_pass *pass, tusk_memory *memory, const double *origin, tusk_group *moved) {
    using namespace tusk;
    if (int code = keep_groups(pass, memory, origin, moved))
        return code;
    int64_t d = pass->groups[0].dim;
    return code_of([&] {
        parallel_for(pass->n_groups, pass->threads,
                     [&](int64_t g) { move_group(moved[g], origin + g * (d + 1), d); });
        return (int)TK_OK;
    });
}
