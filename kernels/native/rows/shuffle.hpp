// The order of a shuffle, and copies of rows in an order.
#pragma once

#include <functional>
#include <vector>

#include "api.h"

namespace tusk {

// A row, and its sort key.
struct Key {
    uint64_t hash;
    const tusk_segment *segment;
    uint32_t row;
};

// Several forms of the same groups, whose rows and segments are in the same order.
struct Forms {
    const tusk_group *const *groups; // the groups of each form
    int32_t n;
};

// The hashes of the rows of a group, by a seed, in the order of the rows. marked: TUSK_FOLDS, if
// rows have them, are hashes of the original rows (row_hash.hpp).
std::vector<Key> hash_rows(const tusk_group &group, uint64_t seed, bool marked, int threads);

// The keys in rising order; rows of one hash by their content.
std::vector<Key> sorted(const tusk_group &group, std::vector<Key> keys, int threads);

// The hash of the k-th of equal rows, from 0 on.
uint64_t hash_of_equal(uint64_t hash, uint64_t k);

// The rows of group g in an order that depends on their content and the seed alone. With forms it
// depends on the content in all of them, so that it is the same in each.
std::vector<Key> shuffled_keys(const tk_pass *pass, int64_t g, uint64_t seed, bool marked,
                               int threads, Forms forms = {nullptr, 0});

// Calls work(g, threads) for each group, many groups concurrently or few with all threads each.
// Returns the TK_ code of a failure, or TK_CANCELLED.
int for_each_group(const tk_pass *pass, const std::function<int(int64_t g, int threads)> &work);

// Copies n rows in the order of their keys into segments of about two megabytes; weighted: the
// copies have weights, of 1 where the rows have none. Returns a TK_ code.
int copy_rows(const tusk_group &group, tusk_memory *memory, int threads, const Key *keys,
              int64_t n, tusk_group *out, bool weighted = false);

} // namespace tusk
