// Reads of many partitions, and counts of a call.
#pragma once

#include "../frames.h"
#include "store.hpp"

namespace tusk {

// Counts of one call. They are added to the store's counters at the end, because all threads share
// these.
struct Tally {
    explicit Tally(ks_store &counted) : store(counted) {}
    ~Tally() {
        store.requests += requests;
        store.found += found;
        store.writes += writes;
        store.batches += batches;
        store.bytes_read += bytes_read;
        store.bytes_written += bytes_written;
    }
    ks_store &store;
    int64_t requests = 0, found = 0, writes = 0, batches = 0, bytes_read = 0, bytes_written = 0;
};

// Destinations of n partitions: contiguous, or each in its own frame.
template <class Weight> struct Targets {
    std::size_t width(int64_t i) const {
        return frames ? frames[i]->width : static_cast<std::size_t>(starts[i + 1] - starts[i]);
    }
    Weight *weights(int64_t i) const {
        return frames ? static_cast<Weight *>(frames[i]->weights) : out + starts[i];
    }
    const int64_t *starts = nullptr;
    Weight *out = nullptr;
    tusk_frame *const *frames = nullptr;
};

// Reads the partitions of n keys, in any order; found may be nullptr.
template <class Weight>
int read_many(const std::uint64_t *keys, int64_t n, const Targets<Weight> &targets,
              std::uint8_t *found, Tally &tally, char *error);

} // namespace tusk
