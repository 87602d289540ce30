// Finds the bounds of bins and the bin of each value.
#include "bins.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "../shared/pool.hpp"
#include "../shared/segments.hpp"
#include "../shared/sorting.hpp"
#include "categories/levels.hpp"

namespace tusk {
namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double GAP = std::numeric_limits<double>::quiet_NaN();
constexpr double GOOD_PART = 0.25; // fraction of the range of values within which a gap must lie
                                   // to end a bin

// Calls body(x, y) for each row of a dense group.
template <class T, class Body> void for_rows(const tusk_group &group, Body &&body) {
    for (const tusk_segment *s : SegmentsOf(group)) {
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

// The sampled rows. Their values are copied one feature at a time, which needs little memory.
template <class T, class At = const T *>
std::vector<At> sample_of(const tusk_group &group, int64_t all_rows) {
    std::vector<At> out;
    bool all = all_rows <= BIN_SAMPLE;
    double share = (double)BIN_SAMPLE / (double)all_rows;
    uint64_t below = all ? UINT64_MAX : (uint64_t)(share * 0x1p64);
    out.reserve((size_t)std::min(group.n_rows, BIN_SAMPLE + BIN_SAMPLE / 8));
    for_rows<T>(group, [&](const T *x, double y) {
        if (all || hash_of(x, group.dim, y) < below)
            out.push_back(x);
    });
    return out;
}

// The values of a feature that are not missing.
template <class T> std::vector<T> values_of(const std::vector<const T *> &rows, int32_t f) {
    std::vector<T> out(rows.size());
    size_t n = 0;
    for (const T *x : rows) {
        out[n] = x[f];
        n += x[f] == x[f];
    }
    out.resize(n);
    return out;
}

// Marks the features with missing values in any row.
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

// The distinct values of a feature, rising, and the cumulative numbers of rows.
template <class T> struct Runs {
    std::vector<T> value;
    std::vector<int64_t> rows;

    explicit Runs(const std::vector<T> &sorted) {
        for (size_t i = 0; i < sorted.size(); i++) {
            if (value.empty() || sorted[i] != value.back())
                value.push_back(sorted[i]), rows.push_back(0);
            rows.back() = (int64_t)i + 1;
        }
    }
    int64_t size() const { return (int64_t)value.size(); }
    double gap(int64_t run) const { return (double)value[run + 1] - (double)value[run]; }
};

// The last run of each bin but the last bin, by ranks: a bin ends when it has its share of the
// remaining rows, or before a value that fills a share alone.
template <class T>
std::vector<int64_t> by_rank(const Runs<T> &runs, int most, const BinRows &rows) {
    std::vector<int64_t> out;
    int64_t begin = 0, n = runs.size() ? runs.rows.back() : 0; // begin: of the bin
    auto share_of = [&] {
        double even = (double)(n - begin) / (double)(most - (int)out.size());
        return std::max<double>((double)rows.usual, even);
    };
    double share = share_of();
    for (int64_t run = 0; run + 1 < runs.size() && (int)out.size() + 1 < most; run++) {
        int64_t has = runs.rows[run] - begin, next = runs.rows[run + 1] - runs.rows[run];
        bool full = (double)has >= share;
        bool before_heavy = has >= rows.least && (double)next >= share;
        if (!(full || before_heavy) || n - runs.rows[run] < rows.least)
            continue;
        out.push_back(run);
        begin = runs.rows[run];
        share = share_of();
    }
    return out;
}

// The runs at which a bin may end, and the one before the widest gap.
struct Window {
    int64_t first, last, widest;
};

// Limits of the end of a bin: it may move by up to half of the rows of the bins on either side,
// each of which keeps its least rows.
template <class T>
Window window_of(const Runs<T> &runs, const BinRows &rows, const std::vector<int64_t> &ends,
                 size_t i) {
    int64_t end = ends[i], at = runs.rows[end], begin = i ? runs.rows[ends[i - 1]] : 0;
    int64_t next = i + 1 < ends.size() ? runs.rows[ends[i + 1]] : runs.rows.back();
    int64_t low = std::max(begin + rows.least, at - (at - begin) / 2);
    int64_t high = std::min(next - rows.least, at + (next - at) / 2);
    Window found{end, end, end};
    while (found.first > 0 && runs.rows[found.first - 1] >= low)
        found.first--;
    while (found.last + 2 < runs.size() && runs.rows[found.last + 1] <= high)
        found.last++;
    for (int64_t run = found.first; run <= found.last; run++)
        if (runs.gap(run) > runs.gap(found.widest))
            found.widest = run;
    return found;
}

// Moves the ends of bins to the widest gaps between values nearby, the widest of all first, if
// these are a good part of the range: so bins do not span empty space.
template <class T>
void move_to_gaps(const Runs<T> &runs, const BinRows &rows, std::vector<int64_t> *ends) {
    if (rows.usual == 1 && (int64_t)ends->size() + 1 == runs.size())
        return;
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < ends->size(); i++)
        order.emplace_back(-runs.gap(window_of(runs, rows, *ends, i).widest), i);
    std::sort(order.begin(), order.end());
    for (auto [_, i] : order) {
        Window around = window_of(runs, rows, *ends, i);
        double range = (double)runs.value[around.last + 1] - (double)runs.value[around.first];
        if (runs.gap(around.widest) >= GOOD_PART * range)
            (*ends)[i] = around.widest;
    }
}

// A feature's bounds without the infinite one.
template <class T>
std::vector<double> bounds_of(std::vector<T> &values, int most, const BinRows &rows) {
    sort_numbers(values);
    const Runs<T> runs(values);
    std::vector<int64_t> ends = by_rank(runs, most, rows);
    move_to_gaps(runs, rows, &ends);
    std::vector<double> out;
    out.reserve(ends.size());
    for (int64_t run : ends)
        out.push_back(between((double)runs.value[run], (double)runs.value[run + 1]));
    return out;
}

// Returns whether a feature has bounds shared by all groups, and if so writes them.
bool are_shared(const tk_boost &boost, int64_t f, std::vector<double> *out) {
    if (!boost.bounds)
        return false;
    out->assign(boost.bounds + boost.bound_start[f], boost.bounds + boost.bound_start[f + 1]);
    return !(out->size() == 1 && std::isnan(out->front()));
}

template <class T>
Bins bins_of(const tusk_group &group, const tk_boost &boost, const BinRows &rows,
             const uint8_t *by_level, int threads) {
    const int most = boost.max_bins;
    std::vector<const T *> sample;
    std::vector<std::vector<double>> bounds(group.dim);
    std::vector<uint8_t> shared(group.dim);
    for (int32_t f = 0; f < group.dim; f++)
        shared[f] = !(by_level && by_level[f]) && are_shared(boost, f, &bounds[f]);
    if (std::find(shared.begin(), shared.end(), 0) != shared.end())
        sample = sample_of<T>(group, group.n_rows);
    bool sampled = group.n_rows > BIN_SAMPLE;
    parallel_for(group.dim, threads, [&](int64_t f) {
        if (shared[f])
            return;
        if (by_level && by_level[f] && sampled) {
            bounds[f] = levels_in(group, (int32_t)f, most);
            return;
        }
        std::vector<T> values = values_of(sample, (int32_t)f);
        bounds[f] =
            by_level && by_level[f] ? levels_of(values, most) : bounds_of(values, most, rows);
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

// The largest number of type T that is at most x: a value of type T is above both or above none.
double rounded_down(double x, double) {
    return x;
}
float rounded_down(double x, float) {
    auto y = (float)x;
    return (double)y > x ? std::nextafterf(y, -std::numeric_limits<float>::infinity()) : y;
}

// The finite bounds of the bins of each feature, as the nodes of a balanced tree in the order of
// its levels: the children of node k are 2 k and 2 k + 1. A value is looked up without branches,
// half of which would be mispredicted.
template <class T> class Lookup {
public:
    explicit Lookup(const Bins &bins) {
        int32_t most = 1;
        for (int32_t f = 0; f < bins.features(); f++)
            most = std::max(most, bins.values(f));
        while (1 << levels_ < most)
            levels_++;
        nodes_.resize((size_t)bins.features() << levels_);
        for (int32_t f = 0; f < bins.features(); f++)
            fill(bins.bound.data() + bins.first[f], bins.values(f) - 1, of(f));
    }

    // The number of bounds of feature f below each of n values, which are d apart, as are results;
    // `missing` for missing values.
    void find(int32_t f, const T *x, size_t d, uint32_t n, uint8_t missing, uint8_t *out) const {
        const T *node = of(f);
        uint32_t at = 0;
        for (; at + TOGETHER <= n; at += TOGETHER, x += TOGETHER * d, out += TOGETHER * d) {
            uint32_t k[TOGETHER];
            for (uint32_t &one : k)
                one = 1;
            for (int level = 0; level < levels_; level++)
                for (uint32_t i = 0; i < TOGETHER; i++)
                    k[i] = 2 * k[i] + (node[k[i]] < x[i * d]);
            for (uint32_t i = 0; i < TOGETHER; i++)
                out[i * d] = x[i * d] == x[i * d] ? (uint8_t)(k[i] - (1U << levels_)) : missing;
        }
        for (; at < n; at++, x += d, out += d) {
            uint32_t k = 1;
            for (int level = 0; level < levels_; level++)
                k = 2 * k + (node[k] < *x);
            *out = *x == *x ? (uint8_t)(k - (1U << levels_)) : missing;
        }
    }

private:
    static constexpr uint32_t TOGETHER = 8; // independent look-ups at the same time

    T *of(int32_t f) { return nodes_.data() + ((size_t)f << levels_); }
    const T *of(int32_t f) const { return nodes_.data() + ((size_t)f << levels_); }

    // Node k of a level has the bound number (2 k + 1) 2^h - 1, with h levels below it.
    void fill(const double *bound, int32_t n, T *node) {
        for (int32_t level = 0; level < levels_; level++)
            for (int32_t k = 0; k < 1 << level; k++) {
                int32_t number = ((2 * k + 1) << (levels_ - level - 1)) - 1;
                node[(1 << level) + k] = number < n ? rounded_down(bound[number], T{})
                                                    : std::numeric_limits<T>::infinity();
            }
    }

    int levels_ = 0;
    std::vector<T> nodes_;
};

// The bins of a segment, by tiles of rows that stay in the core's cache while features are done.
template <class T>
void code(const tusk_segment *s, const Bins &bins, const Lookup<T> &lookup, uint8_t *out) {
    constexpr uint32_t TILE = 64;
    size_t d = bins.features();
    const T *x = (const T *)tusk_dense_values(s);
    for (uint32_t at = 0; at < s->n_rows; at += TILE, x += TILE * d, out += TILE * d) {
        uint32_t n = std::min(TILE, s->n_rows - at);
        for (size_t f = 0; f < d; f++)
            lookup.find((int32_t)f, x + f, d, n, (uint8_t)bins.values((int32_t)f), out + f);
    }
}

template <class T>
void code_as(const tusk_group &group, const Bins &bins, int threads, uint8_t *out, bool spends) {
    const Lookup<T> lookup(bins);
    bool gives = spends && group.n_rows * group.dim >= LARGE;
    std::vector<std::pair<const tusk_segment *, uint8_t *>> parts;
    for (const tusk_segment *s : SegmentsOf(group)) {
        parts.emplace_back(s, out);
        out += (size_t)s->n_rows * group.dim;
    }
    parallel_for((int64_t)parts.size(), threads, [&](int64_t i) {
        code(parts[i].first, bins, lookup, parts[i].second);
        code_levels(parts[i].first, group.kind, bins, parts[i].second);
        if (gives)
            tusk_segment_spend(const_cast<tusk_segment *>(parts[i].first), tusk_shape_of(&group));
    });
}

} // namespace

std::vector<const void *> sampled(const tusk_group &group, int64_t all_rows) {
    return group.kind == TUSK_DENSE_F64 ? sample_of<double, const void *>(group, all_rows)
                                        : sample_of<float, const void *>(group, all_rows);
}

int64_t copy_values(const std::vector<const void *> &rows, int32_t kind, int32_t f, double *out) {
    int64_t n = 0;
    for (const void *row : rows) {
        out[n] =
            kind == TUSK_DENSE_F64 ? ((const double *)row)[f] : (double)((const float *)row)[f];
        n += out[n] == out[n];
    }
    return n;
}

std::vector<double> bounds_by(std::vector<double> &values, int most, const BinRows &rows) {
    return bounds_of(values, most, rows);
}

BinRows rows_in_bins(const tk_boost &boost, int64_t n) {
    int64_t least = std::max<int64_t>(boost.min_bin_rows, 1);
    if (boost.averaged || boost.min_bin_rows)
        return {least, least};
    least =
        std::min(tk_bin_rows(n), boost.min_child_rows ? boost.min_child_rows : tk_child_rows(n));
    return {least, 2 * least - 1};
}

std::vector<uint8_t> missing_in(const tusk_group &group) {
    return group.kind == TUSK_DENSE_F64 ? gaps_in<double>(group) : gaps_in<float>(group);
}

Bins find_bins(const tusk_group &group, const tk_boost &boost, const uint8_t *by_level,
               int threads) {
    BinRows rows = rows_in_bins(boost, group.n_rows);
    return group.kind == TUSK_DENSE_F64 ? bins_of<double>(group, boost, rows, by_level, threads)
                                        : bins_of<float>(group, boost, rows, by_level, threads);
}

void code_rows(const tusk_group &group, const Bins &bins, int threads, uint8_t *out, bool spends) {
    if (group.kind == TUSK_DENSE_F64)
        code_as<double>(group, bins, threads, out, spends);
    else
        code_as<float>(group, bins, threads, out, spends);
}

} // namespace tusk

int64_t tk_child_rows(int64_t n) {
    return std::clamp<int64_t>(n / 12, 3, 20);
}

int64_t tk_bin_rows(int64_t n) {
    return std::clamp<int64_t>(n / 128, 1, 4);
}

namespace {
// The largest group whose trees overfit without draws and a penalty.
constexpr int64_t MOST_OF_FEW = 199;
} // namespace

double tk_l2(int64_t n) {
    return n <= MOST_OF_FEW ? 1 : 0;
}

double tk_feature_fraction(int64_t n) {
    return n <= MOST_OF_FEW ? 0.6 : 1;
}

double tk_row_fraction(int64_t n) {
    return n <= MOST_OF_FEW ? 0.7 : 1;
}
