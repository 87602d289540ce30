// Orders rows by a seeded hash of their content. The order is as random as a shuffle, and does not
// depend on the order in which a parallel scan delivered the rows. Equal rows are interchangeable:
// the k-th of them is placed by a hash of the content and k, so that they are spread. Otherwise
// few distinct rows would not be mixed, and held-out rows would be all rows of some contents.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "row_hash.hpp"
#include "shuffle.hpp"

namespace tusk {
namespace {

// Location of a row's bytes.
struct RowBytes {
    const void *values, *index;
    size_t values_size, index_size;
    double y;
};

RowBytes bytes_of(const tusk_group &group, const tusk_segment *s, uint32_t row) {
    size_t size = tusk_value_size(group.kind);
    double y = tusk_labels(s)[row];
    if (!tusk_is_sparse(group.kind))
        return {(const char *)tusk_dense_values(s) + row * group.dim * size, nullptr,
                group.dim * size, 0, y};
    uint32_t at = tusk_row_starts(s)[row], n = tusk_row_starts(s)[row + 1] - at;
    return {(const char *)tusk_sparse_values(s) + at * size, tusk_indices(s) + at, n * size,
            n * sizeof(int32_t), y};
}

int compare_bytes(const void *a, size_t n, const void *b, size_t m) {
    size_t both = std::min(n, m); // 0 for the ids of dense rows: memcmp must not get their NULL
    int c = both ? std::memcmp(a, b, both) : 0;
    return c ? c : n < m ? -1 : n > m;
}

// Compares weights, offsets and clusters: rows that differ in them only are not equal.
int compare_extras(const tusk_group &group, const Key &a, const Key &b) {
    tusk_shape shape = tusk_shape_of(&group);
    for (enum tusk_extra which : {TUSK_WEIGHTS, TUSK_OFFSETS, TUSK_CLUSTERS}) {
        const double *x = tusk_extra(a.segment, shape, which);
        const double *z = tusk_extra(b.segment, shape, which);
        if (x && x[a.row] != z[b.row])
            return x[a.row] < z[b.row] ? -1 : 1;
    }
    return 0;
}

bool before(const tusk_group &group, const Key &a, const Key &b) {
    if (a.hash != b.hash)
        return a.hash < b.hash;
    RowBytes x = bytes_of(group, a.segment, a.row), y = bytes_of(group, b.segment, b.row);
    if (x.y != y.y)
        return x.y < y.y;
    if (int c = compare_extras(group, a, b))
        return c < 0;
    int c = compare_bytes(x.values, x.values_size, y.values, y.values_size);
    return (c ? c : compare_bytes(x.index, x.index_size, y.index, y.index_size)) < 0;
}

} // namespace

uint64_t hash_of_equal(uint64_t hash, uint64_t k) {
    return k ? mix(hash ^ (k * 0x9e3779b97f4a7c15u), 0xd6e8feb86659fd93u) : hash;
}

std::vector<Key> hash_rows(const tusk_group &group, uint64_t seed, bool marked, int threads) {
    seed = mix(seed ^ 0xd1b54a32d192ed03u, 0x8cb92ba72f3d8dd7u);
    std::vector<Key> keys(group.n_rows);
    std::vector<std::pair<const tusk_segment *, int64_t>> segments;
    int64_t rows = 0;
    for (const tusk_segment *s : SegmentsOf(group)) {
        segments.push_back({s, rows});
        rows += s->n_rows;
    }
    parallel_for((int64_t)segments.size(), threads, [&](int64_t i) {
        auto [s, at] = segments[i];
        for (uint32_t row = 0; row < s->n_rows; row++)
            keys[at + row] = {mix(hash_of_row(group, s, row, marked) ^ seed, 0xd6e8feb86659fd93u),
                              s, row};
    });
    return keys;
}

namespace {

// Replaces each row's hash by one of its content in all forms, regardless of their order.
void hash_forms(std::vector<Key> &keys, Forms forms, int64_t g, uint64_t seed, int threads) {
    for (Key &key : keys)
        key.hash = 0;
    for (int32_t k = 0; k < forms.n; k++) {
        std::vector<Key> form = hash_rows(forms.groups[k][g], seed, false, threads);
        for (size_t i = 0; i < keys.size(); i++)
            keys[i].hash += form[i].hash;
    }
    for (Key &key : keys)
        key.hash = mix(key.hash ^ 0x9e3779b97f4a7c15u, 0xd6e8feb86659fd93u);
}

} // namespace

// Hashes are uniform, so buckets by their leading bits have similar sizes. Each bucket is sorted
// in cache.
std::vector<Key> sorted(const tusk_group &group, std::vector<Key> keys, int threads) {
    auto less = [&](const Key &a, const Key &b) { return before(group, a, b); };
    int bits = 0;
    while ((int64_t)keys.size() >> bits > 512 && bits < 16)
        bits++;
    if (!bits) {
        std::sort(keys.begin(), keys.end(), less);
        return keys;
    }
    std::vector<int64_t> start((1 << bits) + 1, 0);
    for (const Key &k : keys)
        start[(k.hash >> (64 - bits)) + 1]++;
    for (int i = 0; i < 1 << bits; i++)
        start[i + 1] += start[i];
    std::vector<Key> out(keys.size());
    std::vector<int64_t> at(start.begin(), start.end() - 1);
    for (const Key &k : keys)
        out[at[k.hash >> (64 - bits)]++] = k;
    keys = {};
    parallel_for(1 << bits, threads, [&](int64_t i) {
        std::sort(out.begin() + start[i], out.begin() + start[i + 1], less);
    });
    return out;
}

namespace {

// Gives the k-th key of the same hash, from the second on, a different hash; returns false if
// there is none. Unequal rows of the same hash have been sorted by their content.
bool part_equals(std::vector<Key> &keys) {
    bool found = false;
    uint64_t hash = 0, k = 0;
    for (size_t i = 0; i < keys.size(); i++) {
        k = i && keys[i].hash == hash ? k + 1 : 0;
        hash = keys[i].hash;
        keys[i].hash = hash_of_equal(hash, k);
        found = found || k;
    }
    return found;
}

// Copies rows, in the order of their keys, into segments of about two megabytes.
class Writer {
public:
    Writer(const tusk_group &group, tusk_memory *memory, int threads, bool weighted)
        : group_(group), memory_(memory), threads_(threads), shape_(tusk_shape_of(&group)) {
        if (weighted)
            shape_.extras |= TUSK_WEIGHTS;
    }

    int copy(const Key *keys, int64_t n, tusk_group *out) {
        *out = group_;
        out->head = nullptr;
        out->extras = shape_.extras;
        out->n_rows = n;
        out->n_skipped = 0;
        tusk_segment **link = const_cast<tusk_segment **>(&out->head);
        std::vector<std::pair<tusk_segment *, int64_t>> parts; // each with its first key
        for (int64_t at = 0; at < n;) {
            int64_t rows = rows_that_fit(keys + at, n - at), nnz = nonzeros(keys + at, rows);
            int code = TUSK_OK;
            tusk_segment *s =
                tusk_segment_new(memory_, shape_, (uint32_t)rows, (uint32_t)nnz, &code);
            if (!s)
                return code == TUSK_DISK_FULL ? TK_DISK_FULL : TK_NO_MEMORY;
            *link = s;
            link = &s->next;
            parts.push_back({s, at});
            at += rows;
        }
        parallel_for((int64_t)parts.size(), threads_, [&](int64_t i) {
            fill(parts[i].first, keys + parts[i].second, parts[i].first->cap_rows);
        });
        return TK_OK;
    }

private:
    static constexpr int64_t SEGMENT_BYTES = (1 << 21) - 256;
    static constexpr int64_t AHEAD = 16; // rows to prefetch, since they are scattered

    int64_t rows_that_fit(const Key *keys, int64_t n) const {
        int64_t size = (int64_t)tusk_value_size(group_.kind);
        if (!tusk_is_sparse(group_.kind))
            return std::min(n, std::max<int64_t>(1, SEGMENT_BYTES / (8 + group_.dim * size)));
        int64_t bytes = 0, rows = 0;
        while (rows < n && (rows == 0 || bytes < SEGMENT_BYTES))
            bytes += 12 + nonzeros(keys + rows++, 1) * (4 + size);
        return rows > 1 && bytes > SEGMENT_BYTES ? rows - 1 : rows;
    }

    int64_t nonzeros(const Key *keys, int64_t n) const {
        if (!tusk_is_sparse(group_.kind))
            return 0;
        int64_t total = 0;
        for (int64_t i = 0; i < n; i++) {
            const uint32_t *start = tusk_row_starts(keys[i].segment) + keys[i].row;
            total += start[1] - start[0];
        }
        return total;
    }

    void fill(tusk_segment *s, const Key *keys, uint32_t n) const {
        bool sparse = tusk_is_sparse(group_.kind);
        size_t size = tusk_value_size(group_.kind), width = group_.dim * size;
        for (uint32_t i = 0; i < n; i++) {
            if (i + AHEAD < n)
                prefetch(keys[i + AHEAD]);
            RowBytes row = bytes_of(group_, keys[i].segment, keys[i].row);
            tusk_labels(s)[i] = row.y;
            if (shape_.extras != group_.extras)
                tusk_extra(s, shape_, TUSK_WEIGHTS)[i] = 1;
            if (group_.extras)
                tusk_copy_extras(s, shape_, i, keys[i].segment, tusk_shape_of(&group_),
                                 keys[i].row, 1);
            if (sparse) {
                std::memcpy((char *)tusk_sparse_values(s) + s->nnz * size, row.values,
                            row.values_size);
                std::memcpy(tusk_indices(s) + s->nnz, row.index, row.index_size);
                s->nnz += (uint32_t)(row.index_size / sizeof(int32_t));
                tusk_row_starts(s)[i + 1] = s->nnz;
            } else {
                std::memcpy((char *)tusk_dense_values(s) + i * width, row.values, width);
            }
            s->n_rows = i + 1;
        }
    }

    void prefetch(const Key &k) const {
        __builtin_prefetch(tusk_labels(k.segment) + k.row);
        if (tusk_is_sparse(group_.kind))
            return;
        const char *x = (const char *)bytes_of(group_, k.segment, k.row).values;
        for (size_t at = 0; at < group_.dim * tusk_value_size(group_.kind) && at < 512; at += 64)
            __builtin_prefetch(x + at);
    }

    const tusk_group &group_;
    tusk_memory *memory_;
    int threads_;
    tusk_shape shape_; // of the copies
};

} // namespace

std::vector<Key> shuffled_keys(const tk_pass *pass, int64_t g, uint64_t seed, bool marked,
                               int threads, Forms forms) {
    const tusk_group &group = pass->groups[g];
    std::vector<Key> keys = hash_rows(group, seed, marked, threads);
    if (forms.n > 1)
        hash_forms(keys, forms, g, seed, threads);
    keys = sorted(group, std::move(keys), threads);
    return part_equals(keys) ? sorted(group, std::move(keys), threads) : keys;
}

int copy_rows(const tusk_group &group, tusk_memory *memory, int threads, const Key *keys,
              int64_t n, tusk_group *out, bool weighted) {
    return Writer(group, memory, threads, weighted).copy(keys, n, out);
}

int for_each_group(const tk_pass *pass, const std::function<int(int64_t g, int threads)> &work) {
    bool many = pass->n_groups >= 2 * pass->threads;
    std::atomic<int> code{TK_OK};
    parallel_for(pass->n_groups, many ? pass->threads : 1, [&](int64_t g) {
        if (code)
            return;
        int result =
            cancelled(pass->cancel_mark) ? (int)TK_CANCELLED : work(g, many ? 1 : pass->threads);
        if (result)
            code = result;
    });
    return code;
}

namespace {

// Parameters that all groups share.
struct Shuffling {
    const tk_pass *pass;
    tusk_memory *memory;
    uint64_t seed;
};

int shuffle_group(const Shuffling &all, int64_t g, int threads, int64_t held_out, tusk_group *kept,
                  tusk_group *held) {
    const tusk_group &group = all.pass->groups[g];
    std::vector<Key> keys = shuffled_keys(all.pass, g, all.seed, true, threads);
    int code = copy_rows(group, all.memory, threads, keys.data(), held_out, held);
    if (!code)
        code = copy_rows(group, all.memory, threads, keys.data() + held_out,
                         group.n_rows - held_out, kept);
    kept->n_skipped = group.n_skipped;
    return code;
}

int shuffle(const tk_pass *pass, tusk_memory *memory, uint64_t seed, const int64_t *held_out,
            tusk_group *kept, tusk_group *held) {
    const Shuffling all{pass, memory, seed};
    return for_each_group(pass, [&](int64_t g, int threads) {
        return shuffle_group(all, g, threads, held_out[g], kept + g, held + g);
    });
}

} // namespace
} // namespace tusk

int tk_shuffle(const tk_pass *pass, tusk_memory *memory, uint64_t seed, const int64_t *held_out,
               tusk_group *kept, tusk_group *held) {
    using namespace tusk;
    std::memset(kept, 0, pass->n_groups * sizeof *kept);
    std::memset(held, 0, pass->n_groups * sizeof *held);
    int code = code_of([&] { return shuffle(pass, memory, seed, held_out, kept, held); });
    if (code) {
        tk_free_groups(kept, pass->n_groups);
        tk_free_groups(held, pass->n_groups);
    }
    return code;
}

void tk_spend(const tk_pass *pass, int64_t cells) {
    for (int64_t g = 0; g < pass->n_groups; g++) {
        const tusk_group &group = pass->groups[g];
        if (group.n_rows * group.dim < cells)
            continue;
        for (const tusk_segment *s : tusk::SegmentsOf(group))
            tusk_segment_spend(const_cast<tusk_segment *>(s), tusk_shape_of(&group));
    }
}

void tk_free_groups(tusk_group *groups, int64_t n) {
    for (int64_t g = 0; g < n; g++) {
        tusk_segments_free(const_cast<tusk_segment *>(groups[g].head));
        groups[g].head = nullptr;
    }
}
