// Computations on each pair of a chunk and a feature for a plan.
#include <algorithm>
#include <cstring>
#include <vector>

#include "api.h"

void ks_route_ranks(const uint16_t *chunks, int64_t n, uint32_t *next, int32_t *out) {
    for (int64_t k = 0; k < n; k++)
        out[k] = static_cast<int32_t>(next[chunks[k]]++);
}

void ks_route_neighbours(const uint64_t *pairs, int64_t n, int64_t *next, uint32_t *out) {
    for (int64_t begin = 0, end = 0; begin < n; begin = end) {
        uint64_t id = pairs[begin] >> 16;
        for (end = begin + 1; end < n && pairs[end] >> 16 == id;)
            end++;
        for (int64_t k = begin; k < end; k++) { // the order of chunks is a circle
            auto before = static_cast<uint16_t>(pairs[k > begin ? k - 1 : end - 1]);
            auto after = static_cast<uint16_t>(pairs[k + 1 < end ? k + 1 : begin]);
            out[next[static_cast<uint16_t>(pairs[k])]++] = before | uint32_t(after) << 16;
        }
    }
}

namespace {

struct Seen { // of an id: indices of its first and last pair, and their chunks
    uint32_t first, last;
    uint16_t first_chunk, last_chunk;
};
constexpr uint32_t NONE = UINT32_MAX;

void link_pair(Seen &s, uint32_t p, uint16_t chunk, uint32_t *out) {
    if (s.first == NONE) {
        s.first = p;
        s.first_chunk = chunk;
        out[p] = 0;
    } else {
        out[p] = s.last_chunk;
        out[s.last] |= uint32_t(chunk) << 16;
    }
    s.last = p;
    s.last_chunk = chunk;
}

} // namespace

void ks_route_linked(const ks_range *range, uint32_t *table, int64_t block, int64_t *next,
                     uint32_t *out) {
    auto *seen = reinterpret_cast<Seen *>(table);
    const int32_t *ids = range->ids;
    int64_t first = 0;
    for (int32_t j = 0; j < range->chunks; j++) {
        next[j] = first;
        first += range->lengths[j];
    }
    for (int64_t from = 0; from < range->width;
         from += block) { // a table that fits a core's cache
        int64_t size = std::min(block, range->width - from), low = range->low + from, end = 0;
        std::memset(seen, 0xff, static_cast<std::size_t>(size) * sizeof(Seen));
        for (int32_t j = 0; j < range->chunks; j++) {
            end += range->lengths[j];
            int64_t k = next[j];
            for (; k < end && ids[k] - low < size; k++)
                link_pair(seen[ids[k] - low], static_cast<uint32_t>(k), static_cast<uint16_t>(j),
                          out);
            next[j] = k;
        }
        for (int64_t i = 0; i < size; i++) { // the order of chunks is a circle
            const Seen &s = seen[i];
            if (s.first == NONE)
                continue;
            out[s.first] |= s.last_chunk;
            out[s.last] |= uint32_t(s.first_chunk) << 16;
        }
    }
}

void ks_route_tally(const ks_range *range, const uint32_t *around, uint32_t *takes) {
    for (int32_t j = 0; j < range->chunks; j++, takes += range->chunks)
        for (int64_t k = 0; k < range->lengths[j]; k++)
            takes[static_cast<uint16_t>(*around++)]++;
}

int64_t ks_route_rests(const ks_range *range, const uint32_t *around, uint32_t *counts) {
    const int32_t *ids = range->ids;
    int32_t *out = range->ids; // never beyond what is read
    for (int32_t j = 0; j < range->chunks; j++) {
        int32_t *first = out;
        for (int64_t k = 0; k < range->lengths[j]; k++) {
            *out = *ids++;
            out += static_cast<uint16_t>(*around++) >= j;
        }
        counts[j] = static_cast<uint32_t>(out - first);
    }
    return out - range->ids;
}

namespace {

struct Window { // ids from .. to - 1, and the end of each chunk's ids: the second row of next
    int64_t from, to, count;
};

// The block with the least remaining id; none: count is 0.
Window next_window(const ks_rest &rest, int64_t *ends) {
    const ks_range &range = *rest.range;
    int64_t least = INT64_MAX, end = 0;
    for (int32_t j = 0; j < range.chunks; j++) {
        end += range.lengths[j];
        if (rest.next[j] < end)
            least = std::min<int64_t>(least, range.ids[rest.next[j]]);
    }
    if (least == INT64_MAX)
        return {0, 0, 0};
    int64_t from = range.low + (least - range.low) / rest.block * rest.block;
    Window w{from, from + rest.block, 0};
    end = 0;
    for (int32_t j = 0; j < range.chunks; j++) {
        end += range.lengths[j];
        int64_t k = rest.next[j];
        while (k < end && range.ids[k] < w.to)
            k++;
        w.count += k - rest.next[j];
        ends[j] = k;
    }
    return w;
}

template <class Take> void take_window(const ks_rest &rest, const int64_t *ends, Take take) {
    for (int32_t j = 0; j < rest.range->chunks; j++) {
        for (int64_t k = rest.next[j]; k < ends[j]; k++)
            take(rest.range->ids[k], rest.weights[k]);
        rest.next[j] = ends[j];
    }
}

int64_t by_table(const ks_rest &rest, const Window &w, const int64_t *ends, int64_t *ids,
                 uint32_t *weights) {
    std::fill_n(rest.table, rest.block, 0);
    take_window(rest, ends,
                [&](int64_t id, uint32_t weight) { rest.table[id - w.from] = weight; });
    int64_t n = 0; // at most the number taken, and there is room for one more
    for (int64_t i = 0; i < rest.block; i++) {
        ids[n] = w.from + i;
        weights[n] = rest.table[i];
        n += rest.table[i] != 0;
    }
    return n;
}

int64_t by_sort(const ks_rest &rest, const Window &w, const int64_t *ends, int64_t *ids,
                uint32_t *weights) {
    std::vector<uint64_t> pairs;
    pairs.reserve(static_cast<std::size_t>(w.count));
    take_window(rest, ends, [&](int64_t id, uint32_t weight) {
        pairs.push_back(static_cast<uint64_t>(id - w.from) << 32 | weight);
    });
    std::sort(pairs.begin(), pairs.end());
    int64_t n = 0;
    for (uint64_t pair : pairs) {
        ids[n] = w.from + static_cast<int64_t>(pair >> 32);
        weights[n] = static_cast<uint32_t>(pair);
        n += weights[n] != 0;
    }
    return n;
}

constexpr int64_t FEW = 32; // block length per occurring id from which on ids are sorted

} // namespace

int64_t ks_route_by_id(const ks_rest *rest, int64_t *ids, uint32_t *weights) {
    int64_t n = 0, *ends = rest->next + rest->range->chunks;
    while (n + rest->block < rest->most) {
        Window w = next_window(*rest, ends);
        if (!w.count)
            break;
        auto put = w.count < rest->block / FEW ? by_sort : by_table;
        n += put(*rest, w, ends, ids + n, weights + n);
    }
    return n;
}

void ks_route_order(const uint32_t *around, int64_t n, uint32_t *takes, uint32_t *gives,
                    int32_t *places, int32_t *going) {
    for (int64_t k = 0; k < n; k++) {
        auto place = static_cast<int32_t>(takes[static_cast<uint16_t>(around[k])]++);
        places[k] = place;
        going[gives[around[k] >> 16]++] = place;
    }
}

int64_t ks_route_resting(const uint32_t *around, int64_t n, int32_t chunk, uint32_t *takes,
                         const uint32_t *weights, uint32_t *out) {
    uint32_t *begin = out;
    for (int64_t k = 0; k < n; k++) {
        auto before = static_cast<uint16_t>(around[k]);
        uint32_t place = takes[before]++;
        bool rests = before >= chunk;
        *out = weights[rests ? place : 0];
        out += rests;
    }
    return out - begin;
}
