// What planning does for each pair of a chunk and a feature.
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
