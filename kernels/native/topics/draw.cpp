#include "draw.hpp"

#include <algorithm>

namespace tusk::topics {
namespace {

// The weight of a topic without one of its tokens in the document.
inline float weight_without(const Place &p, uint32_t k) {
    float n = (float)(p.in_document[k] - 1);
    return (p.alpha[k] + n) / (float)((double)(p.total[k] - 1) + p.smoothing);
}

// The first of `blocks` vectors whose lane, less `excess` from vector `from` on, is above r.
inline int32_t first_above(const float *sums, int32_t blocks, int32_t from, float excess,
                           float r) {
    int32_t at = 0;
    for (int32_t left = blocks; left > 1;) {
        int32_t half = left / 2, last = at + half - 1;
        float sum = sums[(int64_t)last * WIDE] - (last >= from ? excess : 0);
        at = sum <= r ? at + half : at;
        left -= half;
    }
    return at;
}

// Sums run down the lanes, so a lane is chosen first and then a vector of it.
template <int CHAINS> inline uint32_t choose(Place &p, const int32_t *row, Own own, float u) {
    const int32_t blocks = p.width.blocks;
    const float *weight = p.weight.data();
    float *sums = p.sums.data();
    Floats chain[CHAINS] = {};
    for (int32_t j = 0; j < blocks; j++)
        for (int c = 0; c < CHAINS; c++) {
            int64_t at = ((int64_t)c * blocks + j) * WIDE;
            Floats n = floats_of(loaded<Ints>(row + at)) + p.beta;
            chain[c] += loaded<Floats>(weight + at) * n;
            put(sums + at, chain[c]);
        }
    Floats every = chain[0];
    for (int c = 1; c < CHAINS; c++)
        every += chain[c];
    const int32_t own_lane = own.topic % WIDE, own_block = own.topic / WIDE;
    alignas(64) float before[WIDE + 1];
    before[0] = 0;
    Floats up_to = prefix_sums(every - only(own_lane, own.excess));
    put(before + 1, up_to);
    float r = u * before[WIDE];
    int lane = std::min(count_up_to(up_to, r), WIDE - 1);
    r -= before[lane];
    float excess = lane == own_lane ? own.excess : 0;
    int32_t first = 0; // of the chain's vectors
    for (int c = 0; c < CHAINS - 1; c++) {
        int32_t last = (c + 1) * blocks - 1;
        bool has_own = own_block >= c * blocks && own_block <= last;
        float sum = sums[(int64_t)last * WIDE + lane] - (has_own ? excess : 0);
        bool beyond = first == c * blocks && sum <= r;
        first = beyond ? last + 1 : first;
        r = beyond ? r - sum : r;
    }
    bool in_chain = own_block >= first && own_block < first + blocks;
    int32_t block = first_above(sums + (int64_t)first * WIDE + lane, blocks, own_block - first,
                                in_chain ? excess : 0, r);
    return (uint32_t)((first + block) * WIDE + lane);
}

uint32_t choose_of_row(Place &p, const int32_t *row, Own own, float u) {
    if (p.width.chains == 1)
        return choose<1>(p, row, own, u);
    return p.width.chains == 2 ? choose<2>(p, row, own, u) : choose<4>(p, row, own, u);
}

} // namespace

Place::Place(const Width &width, const std::vector<double> &alpha,
             const std::vector<int64_t> &totals, float beta, double smoothing)
    : width(width), beta(beta), smoothing(smoothing), alpha(width.padded), inverse(width.padded),
      weight(width.padded), sums(width.padded), in_document(width.padded), total(width.padded),
      all(0) {
    for (int32_t k = 0; k < width.topics; k++) {
        this->alpha[k] = (float)alpha[k];
        total[k] = (int32_t)totals[k];
        inverse[k] = (float)(1 / ((double)total[k] + smoothing));
    }
}

void Place::begin(const uint16_t *topic, int64_t n) {
    std::fill(in_document.begin(), in_document.end(), 0);
    for (int64_t i = 0; i < n; i++)
        in_document[topic[i]]++;
    Floats sum{};
    for (int32_t at = 0; at < width.padded; at += WIDE) {
        Floats w = (loaded<Floats>(&alpha[at]) + floats_of(loaded<Ints>(&in_document[at]))) *
                   loaded<Floats>(&inverse[at]);
        put(&weight[at], w);
        sum += w;
    }
    all = 0;
    for (int i = 0; i < WIDE; i++)
        all += sum[i];
}

void Place::move(uint32_t from, uint32_t to) {
    in_document[from]--, total[from]--;
    in_document[to]++, total[to]++;
    double change = 0;
    for (uint32_t k : {from, to}) {
        inverse[k] = 1 / (float)((double)total[k] + smoothing);
        float now = (alpha[k] + (float)in_document[k]) * inverse[k];
        change += (double)now - weight[k];
        weight[k] = now;
    }
    all += change;
}

uint32_t draw_from_row(Place &p, const int32_t *row, uint32_t own, float u) {
    float n = (float)row[own];
    float excess = p.weight[own] * (n + p.beta) - weight_without(p, own) * (n - 1 + p.beta);
    uint32_t k = choose_of_row(p, row, {(int32_t)own, excess}, u);
    return k < (uint32_t)p.width.topics ? k : own; // residue of rounding
}

uint32_t draw_from_list(Place &p, const int32_t *list, int32_t n, uint32_t own, float u) {
    float lighter = weight_without(p, own), heavier = p.weight[own];
    float listed = 0;
    for (int32_t i = 0; i < n; i++) {
        uint32_t k = (uint32_t)list[i] >> 16, times = (uint32_t)list[i] & 0xffff;
        listed += k == own ? lighter * (float)(times - 1) : p.weight[k] * (float)times;
        p.sums[i] = listed;
    }
    double others = (p.all - heavier + lighter) * p.beta;
    float r = u * (float)(listed + others);
    if (r < listed) {
        int32_t i = 0;
        while (i < n - 1 && p.sums[i] <= r)
            i++;
        return (uint32_t)list[i] >> 16;
    }
    r = (r - listed) / p.beta;
    p.weight[own] = lighter;
    int32_t k = 0;
    for (float sum = p.weight[0]; sum <= r && k < p.width.topics - 1;)
        sum += p.weight[++k];
    p.weight[own] = heavier;
    return (uint32_t)k;
}

} // namespace tusk::topics
