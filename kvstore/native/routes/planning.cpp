// What planning does for each pair of a chunk and a feature.
#include <algorithm>
#include <cstring>

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

struct Seen { // of an id: places of its first and last pair, and their chunks
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
         from += block) { // a table that a core's cache holds
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
