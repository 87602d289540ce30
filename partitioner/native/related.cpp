#include "related.hpp"

#include "threads.hpp"

#include <algorithm>
#include <new>

namespace tusk {
namespace {

constexpr int64_t AHEAD = 16; // entries that are prefetched
constexpr int64_t SLICE = 64; // clusters of a bucket that are compared with each other
constexpr int BIN_BITS = 8;   // leading bits of the first min-hash, by which sorting begins

uint64_t mixed(uint64_t x) { // the finalizer of SplitMix64
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

std::array<uint32_t, SKETCHES> hashes_of(int64_t row, int64_t chunk) {
    std::array<uint32_t, SKETCHES> out;
    for (int t = 0; t < SKETCHES; t++) {
        const uint64_t seed = (uint64_t)(t + 1) * 0x9e3779b97f4a7c15u;
        const uint64_t high = mixed((uint64_t)chunk + seed) >> (32 + ROW_BITS);
        const uint64_t low = mixed((uint64_t)row - seed) >> (64 - ROW_BITS);
        out[(size_t)t] = (uint32_t)(high << ROW_BITS | low);
    }
    return out;
}

bool before(const tp_related &a, const tp_related &b) {
    for (int t = 0; t < SKETCHES; t++)
        if (a.sketch[t] != b.sketch[t])
            return a.sketch[t] < b.sketch[t];
    return a.sum != b.sum ? a.sum < b.sum : a.feature < b.feature;
}

bool same_rows(const tp_related &a, const tp_related &b) {
    return a.sum == b.sum && std::equal(a.sketch, a.sketch + SKETCHES, b.sketch);
}

int agreement(const Cluster &a, const Cluster &b) {
    int found = 0;
    for (size_t t = 0; t < SKETCHES; t++)
        found += a.sketch[t] == b.sketch[t];
    return found;
}

// Sort key of a feature, with the chunks first.
std::array<uint32_t, SKETCHES + 2> place_key(const Cluster &c) {
    return {c.sketch[0] >> ROW_BITS,
            c.sketch[1] >> ROW_BITS,
            c.sketch[0],
            c.sketch[1],
            c.sketch[2],
            c.sketch[3]};
}

struct Pair {
    double saved;
    int32_t a, b;
    bool operator<(const Pair &other) const {
        if (saved != other.saved)
            return saved > other.saved;
        return a != other.a ? a < other.a : b < other.b;
    }
};

} // namespace

Clusters::Clusters(const tp_related *related, int64_t n, double seek, double unit, int32_t most)
    : related_(related), seek_(seek), unit_(unit), most_(most) {
    collect(n);
    for (int which = 0; which < SKETCHES; which++)
        round(which);
    std::sort(heads_.begin(), heads_.end(), [&](int32_t a, int32_t b) {
        const auto first = place_key(all_[a]), second = place_key(all_[b]);
        return first != second ? first < second : all_[a].begin < all_[b].begin;
    });
}

// Collects features of the same rows into clusters.
void Clusters::collect(int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        const tp_related &one = related_[k];
        const bool joins = k && same_rows(one, related_[k - 1]) && all_.back().own < most_;
        if (joins) {
            Cluster &to = all_.back();
            to.rows = std::max(to.rows, (double)one.rows);
            to.size = ++to.own;
            continue;
        }
        Cluster fresh{{}, (double)one.rows, k, 1, 1, -1, (int32_t)all_.size()};
        std::copy_n(one.sketch, SKETCHES, fresh.sketch.begin());
        all_.push_back(fresh);
    }
    for (int32_t i = 0; i < (int32_t)all_.size(); i++)
        heads_.push_back(i);
}

// Merges within the buckets of clusters that share one of their min-hashes.
void Clusters::round(int which) {
    const auto by = [&](int32_t a, int32_t b) {
        for (int t = 0; t < SKETCHES; t++) {
            const size_t at = (size_t)(which + t) % SKETCHES;
            if (all_[a].sketch[at] != all_[b].sketch[at])
                return all_[a].sketch[at] < all_[b].sketch[at];
        }
        return all_[a].begin < all_[b].begin;
    };
    std::sort(heads_.begin(), heads_.end(), by);
    int32_t *const begin = heads_.data(), *const end = begin + heads_.size();
    for (int32_t *a = begin, *b = begin; a < end; a = b) {
        while (b < end && b - a < SLICE && all_[*b].sketch[which] == all_[*a].sketch[which])
            b++;
        if (b - a > 1)
            merge_bucket(a, b);
    }
    std::erase_if(heads_, [&](int32_t i) { return !all_[i].size; });
}

// Algorithm 3 on a few clusters.
void Clusters::merge_bucket(int32_t *begin, int32_t *end) {
    std::vector<Pair> pairs;
    for (int32_t *i = begin; i < end; i++)
        for (int32_t *j = i + 1; j < end; j++)
            if (const double gain = saved(all_[*i], all_[*j]); gain > 0)
                pairs.push_back({gain, *i, *j});
    std::sort(pairs.begin(), pairs.end());
    for (const Pair &pair : pairs) {
        Cluster &a = all_[pair.a], &b = all_[pair.b];
        if (a.size && b.size && saved(a, b) > 0)
            join(a, pair.b);
    }
}

// The reduction C_i + C_j - C_ij of the paper, n_ij from the sketches; 0 if they must not be
// merged.
double Clusters::saved(const Cluster &a, const Cluster &b) const {
    const int agree = agreement(a, b);
    if (agree < AGREE || (int64_t)a.size + b.size > most_)
        return 0;
    const double jaccard = (double)agree / SKETCHES;
    const double together = jaccard / (1 + jaccard) * (a.rows + b.rows);
    return together * (seek_ + (a.size + b.size) * unit_) - a.rows * b.size * unit_ -
           b.rows * a.size * unit_;
}

void Clusters::join(Cluster &into, int32_t number) {
    Cluster &from = all_[number];
    into.rows = (into.rows + from.rows) / (1 + (double)agreement(into, from) / SKETCHES);
    for (size_t t = 0; t < SKETCHES; t++)
        into.sketch[t] = std::min(into.sketch[t], from.sketch[t]);
    into.size += from.size;
    from.size = 0;
    all_[into.last].next = number;
    into.last = from.last;
}

namespace {

// Unit of placement: a cluster, or the features of the same rows.
struct Unit {
    const Cluster *cluster;
    bool whole;
    int32_t size() const { return whole ? cluster->size : cluster->own; }
};

std::vector<Unit> units_of(const std::vector<Cluster> &all, const std::vector<int32_t> &heads,
                           int32_t block) {
    std::vector<Unit> units;
    for (const int32_t head : heads) {
        if (all[head].size <= block) {
            units.push_back({&all[head], true});
            continue;
        }
        for (int32_t i = head; i >= 0; i = all[i].next)
            units.push_back({&all[i], false});
    }
    return units;
}

// Assigns numbers, unit by unit. The rest of a block that the next unit would cross takes single
// features; if there are none left, the last unit is broken up for it.
class Placing {
public:
    Placing(const tp_related *related, const std::vector<Cluster> &all, std::vector<Unit> units,
            int32_t block, int32_t *places)
        : related_(related), all_(all), units_(std::move(units)), block_(block), places_(places),
          done_(units_.size()), end_(units_.size()) {}

    void run() {
        for (size_t i = 0; i < units_.size(); i++) {
            if (done_[i])
                continue;
            const int64_t left = block_ - at_ % block_;
            if (units_[i].size() <= block_ && units_[i].size() > left)
                fill(left, i + 1);
            each(units_[i], [&](int32_t feature) { put(feature); });
        }
        for (const int32_t feature : fillers_)
            put(feature);
    }

private:
    void put(int32_t feature) { places_[feature] = (int32_t)at_++; }

    template <class Body> void each(const Unit &unit, Body &&body) const {
        for (const Cluster *c = unit.cluster;; c = &all_[c->next]) {
            for (int32_t k = 0; k < c->own; k++)
                body(related_[c->begin + k].feature);
            if (!unit.whole || c->next < 0)
                return;
        }
    }

    void fill(int64_t left, size_t from) {
        for (; left && (!fillers_.empty() || find_fillers(from)); left--) {
            put(fillers_.back());
            fillers_.pop_back();
        }
    }

    bool find_fillers(size_t from) {
        single_ = std::max(single_, from);
        while (single_ < end_ && (done_[single_] || units_[single_].size() > 1))
            single_++;
        size_t taken = single_;
        if (single_ >= end_) {
            while (end_ > from && done_[end_ - 1])
                end_--;
            if (end_ <= from)
                return false;
            taken = --end_;
        }
        done_[taken] = true;
        each(units_[taken], [&](int32_t feature) { fillers_.push_back(feature); });
        return true;
    }

    const tp_related *related_;
    const std::vector<Cluster> &all_;
    const std::vector<Unit> units_;
    const int32_t block_;
    int32_t *places_;
    std::vector<bool> done_;
    std::vector<int32_t> fillers_;
    size_t single_ = 0, end_;
    int64_t at_ = 0;
};

} // namespace

void Clusters::place(int32_t block, int32_t *places) const {
    Placing(related_, all_, units_of(all_, heads_, block), block, places).run();
}

} // namespace tusk

struct tp_clusters final : tusk::Clusters {
    using Clusters::Clusters;
};

void tp_related_new(tp_related *related, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        related[i] = {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, 0, 0, (int32_t)i};
}

void tp_related_add(tp_related *related, int64_t n, const int64_t *starts, const int64_t *features,
                    int64_t n_rows, int64_t first_row, int64_t chunk_rows) {
    const int64_t end = n_rows ? starts[n_rows] : 0;
    for (int64_t row = 0; row < n_rows; row++) {
        const auto hashes = tusk::hashes_of(first_row + row, (first_row + row) / chunk_rows);
        const auto sum = (uint32_t)tusk::mixed((uint64_t)(first_row + row) * 2 + 1);
        for (int64_t k = starts[row]; k < starts[row + 1]; k++) {
            if (k + tusk::AHEAD < end && (uint64_t)features[k + tusk::AHEAD] < (uint64_t)n)
                __builtin_prefetch(&related[features[k + tusk::AHEAD]], 1);
            if ((uint64_t)features[k] >= (uint64_t)n)
                continue;
            tp_related &one = related[features[k]];
            for (int t = 0; t < tusk::SKETCHES; t++)
                one.sketch[t] = std::min(one.sketch[t], hashes[(size_t)t]);
            one.sum += sum;
            one.rows++;
        }
    }
}

void tp_related_bins(tp_related *related, int64_t n, int64_t *ends) {
    constexpr int BINS = 1 << tusk::BIN_BITS, SHIFT = 32 - tusk::BIN_BITS;
    int64_t counts[BINS] = {}, at[BINS];
    for (int64_t i = 0; i < n; i++)
        counts[related[i].sketch[0] >> SHIFT]++;
    for (int64_t bin = 0, sum = 0; bin < BINS; bin++) {
        at[bin] = sum;
        ends[bin] = sum += counts[bin];
    }
    for (int bin = 0; bin < BINS; bin++) // American flag sort: swaps each item to its bin
        while (at[bin] < ends[bin]) {
            const auto home = related[at[bin]].sketch[0] >> SHIFT;
            if ((int)home == bin)
                at[bin]++;
            else
                std::swap(related[at[bin]], related[at[home]++]);
        }
}

void tp_related_sort(tp_related *related, const int64_t *ends, int32_t first, int32_t last,
                     int32_t threads) {
    tusk::parallel(first, last, threads, [&](int32_t bin) {
        std::sort(related + (bin ? ends[bin - 1] : 0), related + ends[bin], tusk::before);
    });
}

int tp_clusters_open(const tp_related *related, int64_t n, double seek, double unit, int32_t most,
                     tp_clusters **out) {
    try {
        *out = new tp_clusters(related, n, seek, unit, most);
        return TP_OK;
    } catch (const std::bad_alloc &) {
        return TP_NO_MEMORY;
    }
}

int tp_clusters_place(const tp_clusters *clusters, int32_t block, int32_t *places) {
    try {
        clusters->place(block, places);
        return TP_OK;
    } catch (const std::bad_alloc &) {
        return TP_NO_MEMORY;
    }
}

int64_t tp_clusters_count(const tp_clusters *clusters) {
    return clusters->count();
}

void tp_clusters_close(tp_clusters *clusters) {
    delete clusters;
}
