// Algorithm 3 of Qin, Torres, Rusu (VLDB 2017, section 5): greedy vertical partitioning.
//
// Objective: the partitioning P of the features that minimises the cost of all requests,
//     sum over p in P of n_p * cost(s_p),    cost(s) = seek + s * unit,
// where n_p is the number of rows that access p, and s_p its number of features.
//
// Given: the sampled rows, seek, unit. Starts with one partition per feature and merges the pair
// with the largest reduction
//     saved(i, j) = C_i + C_j - C_ij
//                 = n_ij * (seek + (s_i + s_j) * unit) - n_i * s_j * unit - n_j * s_i * unit
// until no reduction is positive. So only pairs that occur together in a row (n_ij > 0) can be
// merged. If reductions are equal, the pair with the lowest features goes first.
//
// The implementation differs from the paper's listing, but the result does not. The affinities
// n_ij are not recounted after each merge. Those of the merged partition come from the union of
// two bitsets of rows, and popcounts over the words in which the union is larger than one of its
// halves. A heap holds one pair per partition: the partition and its best partner after it. A pair
// that lost a member stays as a bound, and a new partner is searched only when it comes to the
// top.
#pragma once

#include "api.h"
#include "sample.hpp"

#include <cstdint>
#include <queue>
#include <vector>

namespace tusk {

class Merging {
public:
    Merging(const int64_t *starts, const int32_t *features, int64_t n_rows, int32_t n_features,
            double seek, double unit);

    void affinities(int32_t begin, int32_t end, int32_t threads);
    int32_t merge(int32_t limit, tp_step *steps);
    const std::vector<int32_t> &partitions() const { return alive_; }
    int32_t rows(int32_t partition) const { return rows_[partition]; }
    int32_t size(int32_t partition) const { return size_[partition]; }
    int32_t affinity(int32_t i, int32_t j) const { return i < j ? row_of(i)[j] : row_of(j)[i]; }

private:
    // The best partner of a partition among the partitions after it.
    struct Best {
        double saved = 0; // at least what any of them saves
        int32_t partner = 0;
        uint32_t stamp = 0;
        bool bound = false; // the partner was merged away: only a bound
    };
    struct Entry {
        double saved;
        int32_t partition;
        uint32_t stamp; // valid while it equals the partition's stamp
        bool operator<(const Entry &other) const {
            return saved != other.saved ? saved < other.saved : partition > other.partition;
        }
    };
    // The rows that a union adds to one of its halves, as a bitset.
    struct Added {
        int32_t to; // the half that the rows are added to
        std::vector<Word> words;
        std::vector<int32_t> index; // index of each word; empty: consecutive words
    };

    const int32_t *row_of(int32_t i) const { return triangle_.data() + offsets_[i]; }
    int32_t *row_of(int32_t i) { return triangle_.data() + offsets_[i]; }
    double saved(int32_t i, int32_t j, int32_t together) const;
    void search(int32_t i);
    void push(int32_t i);
    tp_step join(int32_t first, int32_t second);
    Added added(int32_t first, int32_t second) const;
    Added difference(int32_t from, int32_t to) const;
    int32_t shared(const Added &more, int32_t j) const;
    void forget(int32_t j, int32_t first, int32_t second);
    void meet(int32_t merged, int32_t j, int32_t together);

    Sample sample_;
    int32_t n_;
    double seek_, unit_;
    std::vector<int32_t> rows_;     // (n,) n_i; 0 for partitions merged away
    std::vector<int32_t> size_;     // (n,) s_i; 0 for partitions merged away
    std::vector<int32_t> alive_;    // rising
    std::vector<int64_t> offsets_;  // offset of row i of the triangle, minus i
    std::vector<int32_t> triangle_; // unused, then n_ij for i < j; 0 for partitions merged away
    std::vector<Best> best_;
    std::priority_queue<Entry> heap_;
};

} // namespace tusk
