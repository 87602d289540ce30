// Numbers the features of one chunk by rising id, in the memory that the caller gives: a radix
// sort of (id, entry), each thread a range of ids.
#include <algorithm>
#include <bit>
#include <vector>

#include "chunks.hpp"

namespace tusk {
namespace {

constexpr int DIGIT = 11;
constexpr size_t SAMPLE = 1024;

// The entries of a piece: its ids, and the number of the first one in the chunk.
struct Entries {
    int32_t *index;
    uint32_t n, first;
};

std::vector<Entries> entries_of(const StoredChunk &chunk) {
    std::vector<Entries> out;
    uint32_t first = 0;
    for (const Run &p : chunk.pieces) {
        const uint32_t *start = tusk_row_starts(p.segment) + p.first;
        auto *index = const_cast<int32_t *>(tusk_indices(p.segment)) + start[0];
        out.push_back({index, start[p.n] - start[0], first}); // the training owns the rows
        first += start[p.n] - start[0];
    }
    return out;
}

// The ids of one thread: from `low` on, below that of the next part.
struct Part {
    int64_t low, high;
    uint64_t *pairs, *other;
    size_t n = 0, distinct = 0, before = 0;
};

// Parts with about as many entries each, by a sample.
std::vector<Part> parts_of(const std::vector<Entries> &all, size_t n, int threads) {
    std::vector<int32_t> sample;
    size_t step = std::max<size_t>(1, n / SAMPLE);
    for (const Entries &e : all)
        for (size_t k = 0; k < e.n; k += step)
            sample.push_back(e.index[k]);
    std::sort(sample.begin(), sample.end());
    std::vector<Part> parts;
    int64_t low = 0;
    for (int t = 1; t <= threads; t++) {
        int64_t high = t == threads || sample.empty()
                           ? (int64_t)INT32_MAX + 1
                           : std::max<int64_t>(low, sample[sample.size() * (size_t)t / threads]);
        parts.push_back({low, high, nullptr, nullptr});
        low = high;
    }
    return parts;
}

// Counts the entries of each part; returns the largest id.
int32_t count_entries(const std::vector<Entries> &all, std::vector<Part> &parts) {
    int32_t largest = 0;
    for (const Entries &e : all) {
        for (uint32_t k = 0; k < e.n; k++)
            largest = std::max(largest, e.index[k]);
        for (Part &part : parts) {
            auto low = (int32_t)part.low, last = (int32_t)(part.high - 1);
            uint32_t n = 0;
            for (uint32_t k = 0; k < e.n; k++)
                n += (e.index[k] >= low) & (e.index[k] <= last);
            part.n += n;
        }
    }
    return largest;
}

// Writes a part's pairs, and one beyond them.
void fill_part(const std::vector<Entries> &all, const Part &part) {
    uint64_t *to = part.pairs;
    auto low = (int32_t)part.low, last = (int32_t)(part.high - 1);
    for (const Entries &e : all)
        for (uint32_t k = 0; k < e.n; k++) {
            int32_t id = e.index[k];
            *to = (uint64_t)(uint32_t)id << 32 | (e.first + k);
            to += (id >= low) & (id <= last);
        }
}

// Sorts by id, least significant digit first; stable, so entries stay in their order.
void sort_part(Part &part, int bits) {
    for (int low = 0; low < bits; low += DIGIT) {
        constexpr uint64_t MASK = (1 << DIGIT) - 1;
        size_t begin[(1 << DIGIT) + 1] = {};
        for (size_t k = 0; k < part.n; k++)
            begin[(part.pairs[k] >> (32 + low) & MASK) + 1]++;
        for (size_t d = 0; d < MASK; d++)
            begin[d + 1] += begin[d];
        for (size_t k = 0; k < part.n; k++)
            part.other[begin[part.pairs[k] >> (32 + low) & MASK]++] = part.pairs[k];
        std::swap(part.pairs, part.other);
    }
    for (size_t k = 0; k < part.n; k++)
        part.distinct += k == 0 || part.pairs[k] >> 32 != part.pairs[k - 1] >> 32;
}

void number_part(const Part &part, int32_t *ids, uint32_t *rank) {
    size_t at = part.before;
    for (size_t k = 0; k < part.n; k++) {
        uint64_t id = part.pairs[k] >> 32;
        if (k && id != part.pairs[k - 1] >> 32)
            at++;
        ids[at] = (int32_t)id;
        rank[(uint32_t)part.pairs[k]] = (uint32_t)at;
    }
}

int64_t number(tk_chunks &all, StoredChunk &chunk, uint64_t *scratch, int32_t *ids) {
    std::vector<Entries> entries = entries_of(chunk);
    auto n = (size_t)chunk.entries;
    std::vector<Part> parts = parts_of(entries, n, std::max(1, all.cut.threads));
    auto count = (int64_t)parts.size();
    int bits = std::bit_width((uint32_t)count_entries(entries, parts));
    uint64_t *at = scratch, *other = scratch + n + parts.size();
    for (Part &part : parts) {
        part.pairs = at;
        part.other = other;
        at += part.n + 1;
        other += part.n;
    }
    uint64_t *before = parts[0].pairs;
    parallel_for(count, all.cut.threads, [&](int64_t t) {
        fill_part(entries, parts[t]);
        sort_part(parts[t], bits);
    });
    size_t distinct = 0;
    for (Part &part : parts) {
        part.before = distinct;
        distinct += part.distinct;
    }
    // The half of the scratch that is free in all parts.
    auto *rank = (uint32_t *)(parts[0].pairs == before ? scratch + n + parts.size() : scratch);
    parallel_for(count, all.cut.threads, [&](int64_t t) { number_part(parts[t], ids, rank); });
    for (const Entries &e : entries)
        std::copy(rank + e.first, rank + e.first + e.n, e.index);
    return (int64_t)distinct;
}

} // namespace
} // namespace tusk

using namespace tusk;

int tk_chunk_number(tk_chunks *all, int64_t number, uint64_t *scratch, int32_t *ids, int64_t *n) {
    return code_of([&]() -> int {
        if (cancelled(all->cut.cancel_mark))
            return TK_CANCELLED;
        StoredChunk &chunk = all->list[(size_t)number];
        *n = tusk::number(*all, chunk, scratch, ids);
        chunk.features = *n;
        return TK_OK;
    });
}

void tk_chunk_replace(tk_chunks *all, int64_t number, const int32_t *table) {
    for (const Entries &e : entries_of(all->list[(size_t)number]))
        for (uint32_t k = 0; k < e.n; k++)
            e.index[k] = table[e.index[k]];
}

int tk_chunk_put(tk_chunks *all, int64_t number, uint64_t key, uint32_t width) {
    return code_of([&]() -> int {
        StoredChunk &chunk = all->list[(size_t)number];
        chunk.keys.assign(1, key);
        chunk.widths.assign(1, width);
        chunk.weights = width;
        chunk.shift = std::bit_width(width - 1);
        return TK_OK;
    });
}
