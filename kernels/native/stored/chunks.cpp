// Cuts rows into chunks and maps their feature ids to indices. Each distinct id of a chunk is
// looked up once.
#include <atomic>
#include <bit>
#include <numeric>

#include "chunks.hpp"
#include "numbering.hpp"

namespace tusk {
namespace {

constexpr int64_t MOST_PLACES = INT32_MAX;

// Calls body(index, n) for the entries of each piece.
template <class Body> void for_entries(const StoredChunk &chunk, Body &&body) {
    for (const Run &p : chunk.pieces) {
        const uint32_t *start = tusk_row_starts(p.segment) + p.first;
        body(tusk_indices(p.segment) + start[0], start[p.n] - start[0]);
    }
}

void find_ids(StoredChunk &chunk) {
    auto mapping = std::make_unique<Mapping>();
    mapping->entry.resize(chunk.entries);
    uint32_t *to = mapping->entry.data();
    Numbering numbering;
    for_entries(chunk, [&](const int32_t *index, uint32_t n) {
        constexpr uint32_t AHEAD = 16;
        for (uint32_t k = 0; k < n; k++) {
            if (k + AHEAD < n)
                numbering.expect(index[k + AHEAD]);
            *to++ = numbering.number(index[k]);
        }
    });
    mapping->ids = std::move(numbering.ids);
    chunk.features = (int64_t)mapping->ids.size();
    chunk.mapping = std::move(mapping);
}

struct Keyed {
    uint64_t key;
    uint32_t id; // number of the id
};

// Radix sort by key, least significant digit first, up to the highest digit of the largest key.
void sort_by_key(std::vector<Keyed> &pairs) {
    uint64_t all = 0;
    for (const Keyed &p : pairs)
        all |= p.key;
    std::vector<Keyed> other(pairs.size());
    for (int low = 0; low < 64 && all >> low; low += 8) {
        size_t count[257] = {};
        for (const Keyed &p : pairs)
            count[(p.key >> low & 255) + 1]++;
        std::partial_sum(count, count + 257, count);
        for (const Keyed &p : pairs)
            other[count[p.key >> low & 255]++] = p;
        pairs.swap(other);
    }
}

void find_keys(StoredChunk &chunk, const int64_t *keys, const int32_t *slots) {
    Mapping &mapping = *chunk.mapping;
    size_t n = mapping.ids.size();
    std::vector<Keyed> pairs(n);
    for (size_t i = 0; i < n; i++)
        pairs[i] = {(uint64_t)keys[i], (uint32_t)i};
    sort_by_key(pairs);
    mapping.slot.assign(slots, slots + n);
    mapping.key.resize(n);
    chunk.keys.clear();
    for (const Keyed &p : pairs) {
        if (chunk.keys.empty() || chunk.keys.back() != p.key)
            chunk.keys.push_back(p.key);
        mapping.key[p.id] = (uint32_t)chunk.keys.size() - 1;
    }
    chunk.keys.shrink_to_fit();
}

// The largest page size for which indices fit into int32, but no larger than the largest payload
// needs. -1: even the smallest pages are too large.
int best_shift(const StoredChunk &chunk, const tk_cut &cut) {
    uint32_t widest = *std::max_element(chunk.widths.begin(), chunk.widths.end());
    int shift = cut.shift >= 0 ? cut.shift : std::bit_width(widest - 1);
    for (; shift >= 0; shift--) {
        int64_t places = 0;
        for (uint32_t width : chunk.widths)
            places += ((((int64_t)width - 1) >> shift) + 1) << shift;
        if (places <= MOST_PLACES)
            break;
    }
    return shift;
}

// The number of parts into which a chunk must be cut so that their payloads fit; 1: it fits.
int64_t parts_of(StoredChunk &chunk, const tk_cut &cut) {
    chunk.weights = std::accumulate(chunk.widths.begin(), chunk.widths.end(), (int64_t)0);
    int64_t bytes = chunk.weights * cut.weight_size + (int64_t)chunk.keys.size() * cut.frame_bytes;
    int64_t parts = std::max<int64_t>(1, (bytes + cut.most_bytes - 1) / cut.most_bytes);
    if (parts == 1 && !chunk.keys.empty() && (chunk.shift = best_shift(chunk, cut)) < 0)
        parts = 2;
    return (int64_t)std::bit_ceil((uint64_t)parts);
}

int overwrite_ids(StoredChunk &chunk) {
    const Mapping &mapping = *chunk.mapping;
    std::vector<int32_t> first(chunk.keys.size()), place(mapping.ids.size());
    int64_t next = 0;
    for (size_t k = 0; k < first.size(); k++) {
        first[k] = (int32_t)next;
        next += chunk.pages_of(chunk.widths[k]) << chunk.shift;
    }
    for (size_t i = 0; i < place.size(); i++) {
        uint32_t k = mapping.key[i];
        if (mapping.slot[i] < 0 || (uint32_t)mapping.slot[i] >= chunk.widths[k])
            return TK_BAD_PLACE;
        place[i] = first[k] + mapping.slot[i];
    }
    const uint32_t *from = mapping.entry.data();
    for_entries(chunk, [&](const int32_t *index, uint32_t n) {
        int32_t *to = const_cast<int32_t *>(index); // the training owns the rows
        for (uint32_t k = 0; k < n; k++)
            to[k] = place[*from++];
    });
    chunk.mapping.reset();
    return TK_OK;
}

// Sorts the entries of a wide chunk's row by index, so that each payload's are neighbours.
template <class Value> void sort_entries(const StoredChunk &chunk) {
    struct Entry {
        int32_t place;
        Value value;
    };
    for (const Run &p : chunk.pieces) {
        const uint32_t *start = tusk_row_starts(p.segment) + p.first;
        auto *index = const_cast<int32_t *>(tusk_indices(p.segment)) + start[0];
        auto *value = (Value *)const_cast<void *>(tusk_sparse_values(p.segment)) + start[0];
        std::vector<Entry> entries(start[p.n] - start[0]);
        for (size_t k = 0; k < entries.size(); k++)
            entries[k] = {index[k], value[k]};
        std::stable_sort(entries.begin(), entries.end(),
                         [](const Entry &a, const Entry &b) { return a.place < b.place; });
        for (size_t k = 0; k < entries.size(); k++) {
            index[k] = entries[k].place;
            value[k] = entries[k].value;
        }
    }
}

// Replaces the ids of the only row of a chunk whose payloads do not fit together.
int place_wide(StoredChunk &chunk, const tk_chunks &all) {
    for (uint32_t width : chunk.widths)
        if ((int64_t)width * all.cut.weight_size + all.cut.frame_bytes > all.cut.most_bytes)
            return TK_CHUNK_TOO_LARGE;
    if ((chunk.shift = best_shift(chunk, all.cut)) < 0)
        return TK_CHUNK_TOO_LARGE;
    chunk.wide = true;
    if (int code = overwrite_ids(chunk))
        return code;
    all.value_size == sizeof(float) ? sort_entries<float>(chunk) : sort_entries<double>(chunk);
    return TK_OK;
}

int64_t entries_in(const std::vector<Run> &pieces) {
    int64_t n = 0;
    for (const Run &p : pieces) {
        const uint32_t *start = tusk_row_starts(p.segment) + p.first;
        n += start[p.n] - start[0];
    }
    return n;
}

// Groups the pieces into chunks of `rows` rows. row: the number of the first row.
std::vector<StoredChunk> chunks_of(const std::vector<Run> &pieces, int64_t row, int64_t rows) {
    std::vector<StoredChunk> out;
    int64_t room = 0;
    for (Run p : pieces) {
        while (p.n) {
            if (!room) {
                out.emplace_back();
                out.back().row = row;
                room = rows;
            }
            uint32_t n = (uint32_t)std::min<int64_t>(room, p.n);
            out.back().pieces.push_back({p.segment, p.first, n});
            out.back().rows += n;
            p.first += n;
            p.n -= n;
            row += n;
            room -= n;
        }
    }
    for (StoredChunk &chunk : out)
        chunk.entries = entries_in(chunk.pieces);
    return out;
}

// Splits a chunk. The first part keeps its number, the other parts get new ones.
void split_chunk(tk_chunks *all, size_t number, int64_t parts) {
    const StoredChunk &old = all->list[number];
    auto made = chunks_of(old.pieces, old.row, (old.rows + parts - 1) / parts);
    for (size_t i = made.size(); i-- > 0;) {
        all->unmapped.push_back(i == 0 ? number : all->list.size());
        if (i == 0)
            all->list[number] = std::move(made[0]);
        else
            all->list.push_back(std::move(made[i]));
    }
}

// Recovers the keys and slots of a part of a mapped chunk, so that the part can be mapped again.
void unmap_into(const StoredChunk &chunk, StoredChunk &part) {
    find_ids(part);
    std::vector<int64_t> first;
    int64_t next = 0;
    for (uint32_t width : chunk.widths) {
        first.push_back(next);
        next += chunk.pages_of(width) << chunk.shift;
    }
    std::vector<int64_t> keys;
    std::vector<int32_t> slots;
    for (int32_t place : part.mapping->ids) {
        size_t k = std::upper_bound(first.begin(), first.end(), place) - first.begin() - 1;
        keys.push_back((int64_t)chunk.keys[k]);
        slots.push_back((int32_t)(place - first[k]));
    }
    find_keys(part, keys.data(), slots.data());
    auto at = chunk.keys.begin();
    for (uint64_t key : part.keys) {
        at = std::lower_bound(at, chunk.keys.end(), key);
        part.widths.push_back(chunk.widths[at - chunk.keys.begin()]);
    }
}

// Calls body(i, chunk) for the chunks of the batch.
template <class Body> int for_batch(tk_chunks *all, Body &&body) {
    std::atomic<bool> stop{false};
    parallel_for((int64_t)all->batch.size(), all->cut.threads, [&](int64_t i) {
        if (stop.load(std::memory_order_relaxed) || cancelled(all->cut.cancel_mark))
            stop = true;
        else
            body(i, all->list[all->batch[i]]);
    });
    return stop ? TK_CANCELLED : TK_OK;
}

// Offsets of each of the batch's chunks in a concatenated array, then the array's length.
template <class Size> std::vector<int64_t> begins(const tk_chunks *all, Size &&size) {
    std::vector<int64_t> out{0};
    for (size_t number : all->batch)
        out.push_back(out.back() + (int64_t)size(all->list[number]));
    return out;
}
size_t ids_of(const StoredChunk &chunk) {
    return chunk.mapping->ids.size();
}
size_t keys_of(const StoredChunk &chunk) {
    return chunk.keys.size();
}

} // namespace
} // namespace tusk

using namespace tusk;

int tk_chunks_new(const tusk_group *group, const tk_cut *cut, tk_chunks **out) {
    return code_of([&]() -> int {
        auto all = std::make_unique<tk_chunks>();
        all->cut = *cut;
        all->value_size = group->kind & 1 ? sizeof(double) : sizeof(float);
        all->list = chunks_of(split(*group, UINT32_MAX), 0, cut->rows_per_chunk);
        for (size_t i = all->list.size(); i-- > 0;)
            all->unmapped.push_back(i);
        *out = all.release();
        return TK_OK;
    });
}

void tk_chunks_free(tk_chunks *chunks) {
    delete chunks;
}

int tk_chunks_ids(tk_chunks *all, int64_t limit, int64_t *n_ids) {
    return code_of([&]() -> int {
        all->batch.clear();
        *n_ids = -1;
        if (all->unmapped.empty()) {
            std::sort(all->list.begin(), all->list.end(),
                      [](const StoredChunk &a, const StoredChunk &b) { return a.row < b.row; });
            return TK_OK;
        }
        while (!all->unmapped.empty() && (int64_t)all->batch.size() < limit) {
            all->batch.push_back(all->unmapped.back());
            all->unmapped.pop_back();
        }
        if (int code = for_batch(all, [](int64_t, StoredChunk &c) { find_ids(c); }))
            return code;
        *n_ids = begins(all, ids_of).back();
        return TK_OK;
    });
}

void tk_chunks_copy_ids(const tk_chunks *all, int64_t *ids) {
    for (size_t number : all->batch) {
        const auto &from = all->list[number].mapping->ids;
        ids = std::copy(from.begin(), from.end(), ids);
    }
}

int tk_chunks_keys(tk_chunks *all, const int64_t *keys, const int32_t *slots, int64_t *n_keys) {
    return code_of([&]() -> int {
        auto begin = begins(all, ids_of);
        if (int code = for_batch(all, [&](int64_t i, StoredChunk &c) {
                find_keys(c, keys + begin[i], slots + begin[i]);
            }))
            return code;
        *n_keys = begins(all, keys_of).back();
        return TK_OK;
    });
}

void tk_chunks_copy_keys(const tk_chunks *all, int64_t *keys) {
    for (size_t number : all->batch) {
        const auto &from = all->list[number].keys;
        keys = std::copy(from.begin(), from.end(), keys);
    }
}

int tk_chunks_place(tk_chunks *all, const int64_t *widths) {
    return code_of([&]() -> int {
        auto begin = begins(all, keys_of);
        std::vector<int64_t> parts(all->batch.size(), 1);
        std::atomic<int> failed{TK_OK};
        int code = for_batch(all, [&](int64_t i, StoredChunk &c) {
            c.widths.assign(widths + begin[i], widths + begin[i + 1]);
            parts[i] = parts_of(c, all->cut);
            int code = TK_OK;
            if (parts[i] == 1)
                code = overwrite_ids(c);
            else if (c.rows == 1)
                code = place_wide(c, *all);
            if (code)
                failed = code;
        });
        if (code || (code = failed))
            return code;
        for (size_t i = all->batch.size(); i-- > 0;)
            if (parts[i] > 1 && !all->list[all->batch[i]].wide)
                split_chunk(all, all->batch[i], parts[i]);
        return TK_OK;
    });
}

int tk_chunks_split(tk_chunks *all, int64_t number) {
    return code_of([&]() -> int {
        StoredChunk &old = all->list[number];
        if (old.rows < 2)
            return TK_CHUNK_TOO_LARGE;
        auto parts = chunks_of(old.pieces, old.row, (old.rows + 1) / 2);
        for (StoredChunk &part : parts)
            unmap_into(old, part);
        for (StoredChunk &part : parts) {
            part.weights = std::accumulate(part.widths.begin(), part.widths.end(), (int64_t)0);
            part.shift = old.shift;
            if (int code = overwrite_ids(part))
                return code;
        }
        old = std::move(parts[0]);
        all->list.insert(all->list.begin() + number + 1, std::move(parts[1]));
        return TK_OK;
    });
}

int64_t tk_chunks_count(const tk_chunks *chunks) {
    return (int64_t)chunks->list.size();
}

void tk_chunks_at(const tk_chunks *chunks, int64_t number, tk_chunk *out) {
    const StoredChunk &c = chunks->list[number];
    *out = {
        c.row,     c.rows,     c.entries, c.keys.data(), c.widths.data(), (int64_t)c.keys.size(),
        c.weights, c.features, c.shift,   c.wide};
}
