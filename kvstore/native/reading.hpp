// Reading many partitions, and what a call counts.
#pragma once

#include "store.hpp"

namespace tusk {

// What one call did, added to the store's counters at its end: they are shared by all threads.
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

// The partitions of n keys, in any order; found may be nullptr.
template <class Weight>
int read_many(const std::uint64_t *keys, int64_t n, const int64_t *starts, Weight *out,
              std::uint8_t *found, Tally &tally, char *error);

} // namespace tusk
