// Put, and get-merge-put, of many partitions per call.
#include <algorithm>
#include <numeric>
#include <vector>

#include "writing.hpp"

namespace tusk {
namespace {

template <class Weight>
int put_all(ks_store &store, const std::uint64_t *keys, int64_t n, const int64_t *starts,
            const Weight *values, bool sync, char *error) {
    Tally tally(store);
    Batch batch;
    for (int64_t i = 0; i < n; i++)
        batch.put(keys[i], values + starts[i], static_cast<std::size_t>(starts[i + 1] - starts[i]),
                  tally);
    return batch.write(sync ? store.syncing : store.writing, tally, error);
}

// Neighbours are read together and share a stripe; Fibonacci hashing spreads the rest.
std::size_t stripe_of(std::uint64_t key) {
    return static_cast<std::size_t>((key >> 7) * 0x9e3779b97f4a7c15u >> 59);
}

// The positions of keys grouped by stripe, and where each stripe begins.
struct ByStripe {
    ByStripe(const std::uint64_t *keys, int64_t n) : places(static_cast<std::size_t>(n)) {
        for (int64_t i = 0; i < n; i++)
            begins[stripe_of(keys[i]) + 1]++;
        std::partial_sum(begins.begin(), begins.end(), begins.begin());
        auto next = begins;
        for (int64_t i = 0; i < n; i++)
            places[next[stripe_of(keys[i])]++] = i;
    }
    std::vector<int64_t> places;
    std::array<std::size_t, STRIPES + 1> begins{};
};

// Buffers for the partitions of one stripe, reused for the next.
template <class Weight> struct Scratch {
    std::vector<std::uint64_t> keys;
    std::vector<int64_t> starts; // of partitions
    std::vector<Weight> weights;
};

// Reads each key's partition once. places are ordered by key; keys may repeat.
template <class Weight>
int fill(const ks_updates &given, const int64_t *places, std::size_t n, Scratch<Weight> &scratch,
         Tally &tally, char *error) {
    scratch.keys.clear();
    scratch.starts.assign(1, 0);
    for (std::size_t k = 0; k < n; k++) {
        std::uint64_t key = given.keys[places[k]];
        if (!scratch.keys.empty() && scratch.keys.back() == key)
            continue;
        scratch.keys.push_back(key);
        scratch.starts.push_back(scratch.starts.back() + given.widths[places[k]]);
    }
    scratch.weights.resize(static_cast<std::size_t>(scratch.starts.back()));
    Targets<Weight> targets{scratch.starts.data(), scratch.weights.data()};
    auto n_keys = static_cast<int64_t>(scratch.keys.size());
    return read_many(scratch.keys.data(), n_keys, targets, nullptr, tally, error);
}

// Get, merge, put for the keys of one stripe, under its lock.
template <class Weight>
int add_stripe(const ks_updates &given, int64_t *places, std::size_t n, Scratch<Weight> &scratch,
               Tally &tally, char *error) {
    auto *deltas = static_cast<const Weight *>(given.deltas);
    std::sort(places, places + n,
              [&](int64_t a, int64_t b) { return given.keys[a] < given.keys[b]; });
    if (int code = fill(given, places, n, scratch, tally, error))
        return code;
    for (std::size_t k = 0, partition = 0; k < n; k++) {
        int64_t i = places[k];
        partition += scratch.keys[partition] != given.keys[i];
        Weight *weights = scratch.weights.data() + scratch.starts[partition];
        for (int64_t j = given.entries[i]; j < given.entries[i + 1]; j++)
            weights[given.slots[j]] += deltas[j];
    }
    Batch batch;
    for (std::size_t k = 0; k < scratch.keys.size(); k++)
        batch.put(scratch.keys[k], scratch.weights.data() + scratch.starts[k],
                  static_cast<std::size_t>(scratch.starts[k + 1] - scratch.starts[k]), tally);
    return batch.write(tally.store.writing, tally, error);
}

template <class Weight> int add_all(ks_store &store, const ks_updates &given, char *error) {
    Tally tally(store);
    ByStripe order(given.keys, given.n);
    Scratch<Weight> scratch;
    std::size_t turn = store.turns++; // threads begin at different stripes
    for (std::size_t k = 0; k < STRIPES; k++) {
        std::size_t stripe = (turn * 13 + k) % STRIPES;
        int64_t *places = order.places.data() + order.begins[stripe];
        std::size_t count = order.begins[stripe + 1] - order.begins[stripe];
        if (!count)
            continue;
        std::scoped_lock held(store.stripes[stripe]);
        if (int code = add_stripe(given, places, count, scratch, tally, error))
            return code;
    }
    return KS_OK;
}

} // namespace
} // namespace tusk

int ks_put(ks_store *store, const uint64_t *keys, int64_t n, const int64_t *starts,
           const void *values, int sync, char *error) {
    auto put = [&](auto *weights) {
        return tusk::put_all(*store, keys, n, starts, weights, sync != 0, error);
    };
    return tusk::guarded(
        [&] {
            return store->weight_size == 4 ? put(static_cast<const float *>(values))
                                           : put(static_cast<const double *>(values));
        },
        error);
}

int ks_add(ks_store *store, const ks_updates *updates, char *error) {
    return tusk::guarded(
        [&] {
            return store->weight_size == 4 ? tusk::add_all<float>(*store, *updates, error)
                                           : tusk::add_all<double>(*store, *updates, error);
        },
        error);
}
