// What planning does for each pair of a chunk and a feature.
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

void ks_route_linked(const int32_t *ids, const int64_t *lengths, int32_t chunks, int32_t low,
                     int64_t width, uint32_t *table, uint32_t *out) {
    struct Seen { // of an id: places of its first and last pair, and their chunks
        uint32_t first, last;
        uint16_t first_chunk, last_chunk;
    };
    constexpr uint32_t NONE = UINT32_MAX;
    auto *seen = reinterpret_cast<Seen *>(table);
    std::memset(seen, 0xff, static_cast<std::size_t>(width) * sizeof(Seen));
    uint32_t p = 0;
    for (int32_t j = 0; j < chunks; j++) {
        auto chunk = static_cast<uint16_t>(j);
        for (int64_t k = 0; k < lengths[j]; k++, p++) {
            Seen &s = seen[ids[p] - low];
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
    }
    for (int64_t i = 0; i < width; i++) { // the order of chunks is a circle
        const Seen &s = seen[i];
        if (s.first == NONE)
            continue;
        out[s.first] |= s.last_chunk;
        out[s.last] |= uint32_t(s.first_chunk) << 16;
    }
}

void ks_route_order(const uint32_t *around, int64_t n, uint32_t *takes, uint32_t *gives,
                    int32_t *places, int32_t *going) {
    for (int64_t k = 0; k < n; k++) {
        auto place = static_cast<int32_t>(takes[static_cast<uint16_t>(around[k])]++);
        places[k] = place;
        going[gives[around[k] >> 16]++] = place;
    }
}
