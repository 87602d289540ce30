// The order of a shuffle, and copies of rows in an order.
#pragma once

#include <functional>
#include <vector>

#include "api.h"

namespace tusk {

// A row, and what it is sorted by.
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

// The hashes of the rows of a group, by a seed, in the order in which they lie. marked:
// TUSK_FOLDS, where rows have them, are hashes of the rows as they came (row_hash.hpp).
std::vector<Key> hash_rows(const tusk_group &group, uint64_t seed, bool marked, int threads);

// The keys in rising order; of rows of one hash in that of their content.
std::vector<Key> sorted(const tusk_group &group, std::vector<Key> keys, int threads);

// The hash of the k-th of equal rows, from 0 on.
uint64_t hash_of_equal(uint64_t hash, uint64_t k);

// The rows of group g in an order that depends on their content and the seed alone. With forms it
// depends on the content in all of them, so that it is the same in each.
std::vector<Key> shuffled_keys(const tk_pass *pass, int64_t g, uint64_t seed, bool marked,
                               int threads, Forms forms = {nullptr, 0});

// Calls work(g, threads) for each group, many groups side by side or few with all threads each.
// The TK_ code of one that failed, or TK_CANCELLED.
int for_each_group(const tk_pass *pass, const std::function<int(int64_t g, int threads)> &work);

// Copies n rows in the order of their keys into segments of about two megabytes. A TK_ code.
int copy_rows(const tusk_group &group, tusk_memory *memory, int threads, const Key *keys,
              int64_t n, tusk_group *out);

} // namespace tusk
