// Finds the bounds of bins and the bin of each value.
#include "bins.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "../shared/pool.hpp"
#include "categories/levels.hpp"

namespace tusk {
namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double GAP = std::numeric_limits<double>::quiet_NaN();

// Calls body(x, y) for each row of a dense group.
template <class T, class Body> void for_rows(const tusk_group &group, Body &&body) {
    for (const tusk_segment *s = group.head; s; s = s->next) {
        const T *x = (const T *)tusk_dense_values(s);
        for (uint32_t i = 0; i < s->n_rows; i++)
            body(x + (size_t)i * group.dim, tusk_labels(s)[i]);
    }
}

// A hash of a row's bytes (Steele, Lea and Flood, Fast splittable pseudorandom number generators,
// OOPSLA 2014, for the mixing of each word).
template <class T> uint64_t hash_of(const T *x, int32_t d, double y) {
    uint64_t hash;
    std::memcpy(&hash, &y, sizeof hash);
    for (int32_t f = 0; f < d; f++) {
        uint64_t word = 0;
        std::memcpy(&word, x + f, sizeof(T));
        hash = (hash ^ word) * UINT64_C(0xbf58476d1ce4e5b9);
        hash ^= hash >> 31;
    }
    return hash * UINT64_C(0x94d049bb133111eb);
}

// The values of the sampled rows, feature by feature.
template <class T> std::vector<std::vector<T>> sample_of(const tusk_group &group) {
    std::vector<std::vector<T>> out(group.dim);
    bool all = group.n_rows <= BIN_SAMPLE;
    double share = (double)BIN_SAMPLE / (double)group.n_rows;
    uint64_t below = all ? UINT64_MAX : (uint64_t)(share * 0x1p64);
    for (auto &values : out)
        values.reserve((size_t)std::min(group.n_rows, BIN_SAMPLE + BIN_SAMPLE / 8));
    for_rows<T>(group, [&](const T *x, double y) {
        if (!all && hash_of(x, group.dim, y) >= below)
            return;
        for (int32_t f = 0; f < group.dim; f++)
            if (x[f] == x[f])
                out[f].push_back(x[f]);
    });
    return out;
}

// Which features have missing values in any row.
template <class T> std::vector<uint8_t> gaps_in(const tusk_group &group) {
    std::vector<uint8_t> out(group.dim);
    for_rows<T>(group, [&](const T *x, double) {
        for (int32_t f = 0; f < group.dim; f++)
            out[f] |= x[f] != x[f];
    });
    return out;
}

// The bound between two neighbouring values: at least the lower one, and below the upper one.
double between(double low, double high) {
    double middle = low + (high - low) / 2;
    return middle < high ? middle : low;
}

// A feature's bounds without the infinite one. A bin ends when it has its share of the rows that
// are left, or before a value that has a share of its own.
template <class T> std::vector<double> bounds_of(std::vector<T> &values, int most, int64_t least) {
    std::sort(values.begin(), values.end());
    std::vector<double> out;
    size_t n = values.size(), in_bin = 0;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && values[end] == values[i];)
            end++;
        in_bin += end - i;
        if (end == n || (int)out.size() + 1 == most)
            break;
        size_t next = end + 1;
        while (next < n && values[next] == values[end])
            next++;
        double share = std::max<double>((double)least, (double)(n - (end - in_bin)) /
                                                           (double)(most - (int)out.size()));
        bool full = (double)in_bin >= share;
        bool before_heavy = (int64_t)in_bin >= least && (double)(next - end) >= share;
        if (full || before_heavy) {
            out.push_back(between((double)values[i], (double)values[end]));
            in_bin = 0;
        }
    }
    return out;
}

template <class T>
Bins bins_of(const tusk_group &group, int most, int64_t least, const uint8_t *by_level,
             int threads) {
    auto sample = sample_of<T>(group);
    std::vector<std::vector<double>> bounds(group.dim);
    bool sampled = group.n_rows > BIN_SAMPLE;
    parallel_for(group.dim, threads, [&](int64_t f) {
        if (!by_level || !by_level[f])
            bounds[f] = bounds_of(sample[f], most, least);
        else
            bounds[f] = sampled ? levels_in(group, (int32_t)f, most) : levels_of(sample[f], most);
    });
    Bins bins;
    if (by_level)
        bins.by_level.assign(by_level, by_level + group.dim);
    bins.first.push_back(0);
    bins.missing = gaps_in<T>(group);
    for (int32_t f = 0; f < group.dim; f++) {
        bins.bound.insert(bins.bound.end(), bounds[f].begin(), bounds[f].end());
        bins.missing[f] |= bins.category(f);
        if (!bins.category(f))
            bins.bound.push_back(INFINITE);
        if (bins.missing[f])
            bins.bound.push_back(GAP);
        bins.first.push_back((int32_t)bins.bound.size());
    }
    return bins;
}

// The number of bounds below x, without branches: half of them would be mispredicted.
inline uint8_t bin_of(const double *bound, int32_t n, double x) {
    const double *at = bound;
    for (int32_t length = n; length > 1;) {
        int32_t half = length / 2;
        at += at[half - 1] < x ? half : 0;
        length -= half;
    }
    return (uint8_t)(at - bound);
}

template <class T> void code(const tusk_segment *s, const Bins &bins, uint8_t *out) {
    int32_t d = bins.features();
    const T *x = (const T *)tusk_dense_values(s);
    for (uint32_t i = 0; i < s->n_rows; i++)
        for (int32_t f = 0; f < d; f++, x++) {
            int32_t n = bins.values(f);
            *out++ = *x == *x ? bin_of(bins.bound.data() + bins.first[f], n, (double)*x) : n;
        }
}

} // namespace

Bins find_bins(const tusk_group &group, int most, int64_t least, const uint8_t *by_level,
               int threads) {
    return group.kind == TUSK_DENSE_F64 ? bins_of<double>(group, most, least, by_level, threads)
                                        : bins_of<float>(group, most, least, by_level, threads);
}

void code_rows(const tusk_group &group, const Bins &bins, int threads, uint8_t *out) {
    std::vector<std::pair<const tusk_segment *, uint8_t *>> parts;
    for (const tusk_segment *s = group.head; s; s = s->next) {
        parts.emplace_back(s, out);
        out += (size_t)s->n_rows * group.dim;
    }
    parallel_for((int64_t)parts.size(), threads, [&](int64_t i) {
        if (group.kind == TUSK_DENSE_F64)
            code<double>(parts[i].first, bins, parts[i].second);
        else
            code<float>(parts[i].first, bins, parts[i].second);
        code_levels(parts[i].first, group.kind, bins, parts[i].second);
    });
}

} // namespace tusk
