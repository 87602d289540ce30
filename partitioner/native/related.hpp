// Groups rare features by the rows that hold them, without a matrix of pairs.
//
// Given: for each feature a sketch of its rows, SKETCHES independent min-hashes (Broder, On the
// resemblance and containment of documents, 1997), and how many entries it has. Two features agree
// in one min-hash with the probability of their rows' Jaccard coefficient, and the sketch of a
// union of features is the minimum of their sketches. So the affinity that Algorithm 3 of Qin,
// Torres, Rusu (VLDB 2017, section 5) takes from a matrix is estimated by the sketches alone,
// also after merges.
//
// 1. Features of the same rows are one cluster from the start: sorting finds them.
// 2. Once for each min-hash, clusters that share it are a bucket. Within a bucket, Algorithm 3
//    merges the pair with the largest reduction of cost first, as long as the pair agrees in MOST
//    of its min-hashes (the paper's reduction alone would merge all that meet in one row).
// 3. Clusters are placed in the order of their earliest chunks of rows, so that neighbours in a
//    block are asked for by the same chunks. No cluster crosses the end of a block.
//
// Time is that of sorting; memory 28 bytes per feature and 48 per cluster.
#pragma once

#include "api.h"

#include <array>
#include <cstdint>
#include <vector>

namespace tusk {

constexpr int SKETCHES = 4, AGREE = 3;
constexpr int ROW_BITS = 20; // bits for rows in a min-hash; the rest is for the chunk, so chunks
                             // come first

struct Cluster {
    std::array<uint32_t, SKETCHES> sketch;
    double rows;        // estimated number of rows that contain any of its features
    int64_t begin;      // index of its first features in the sorted array
    int32_t own, size;  // number of features there, and in total with the clusters that joined it
    int32_t next, last; // clusters that joined it, as a list; -1: none
};

class Clusters {
public:
    // related: sorted; most: features in a cluster.
    Clusters(const tp_related *related, int64_t n, double seek, double unit, int32_t most);
    int64_t count() const { return (int64_t)heads_.size(); }
    // places[f]: the number of feature f.
    void place(int32_t block, int32_t *places) const;

private:
    void collect(int64_t n);
    void round(int which);
    void merge_bucket(int32_t *begin, int32_t *end);
    double saved(const Cluster &a, const Cluster &b) const;
    void join(Cluster &into, int32_t number);

    const tp_related *related_;
    double seek_, unit_;
    int32_t most_;
    std::vector<Cluster> all_;
    std::vector<int32_t> heads_; // clusters that joined no other, in order of placement
};

} // namespace tusk
