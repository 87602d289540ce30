// Sums of scores by cluster, the middle of a cluster-robust covariance: the outer products of the
// sums over each cluster's rows. Liang and Zeger, Longitudinal data analysis using generalized
// linear models, 1986.
#pragma once

#include <unordered_map>
#include <vector>

#include "rows.hpp"

namespace tusk {

// The sums of the clusters of one group, whose rows are added in their order.
class ClusterSums {
public:
    ClusterSums(const tusk_group &group, int64_t width)
        : width_(width), place_(places(group)), counted_((int64_t)place_.size() * width * 8),
          sums_(place_.size() * (size_t)width) {}

    int64_t n() const { return (int64_t)place_.size(); }
    double *of(double cluster) { return &sums_[place_.find(cluster)->second * (size_t)width_]; }

    // Adds the lower triangle of the sum of outer products to out.
    void add_squares(double *out) const {
        for (size_t at = 0; at < sums_.size(); at += (size_t)width_) {
            double *to = out;
            for (int64_t j = 0; j < width_; j++)
                for (int64_t k = 0; k <= j; k++)
                    *to++ += sums_[at + (size_t)j] * sums_[at + (size_t)k];
        }
    }

private:
    using Places = std::unordered_map<double, size_t>;

    static Places places(const tusk_group &group) {
        Places found;
        for (const tusk_segment *s : SegmentsOf(group)) {
            const double *cluster = tusk_extra(s, tusk_shape_of(&group), TUSK_CLUSTERS);
            for (uint32_t i = 0; i < s->n_rows; i++)
                found.try_emplace(cluster[i], found.size());
        }
        return found;
    }

    int64_t width_;
    Places place_;
    Counted counted_;
    std::vector<double> sums_;
};

// Calls body(chunk) for the chunks of each group in order, groups concurrently.
template <class Body> void each_group_in_order(const tk_pass *pass, int64_t rows, Body &&body) {
    const auto chunks = make_chunks(pass, rows);
    std::vector<size_t> first(pass->n_groups + 1, chunks.size());
    for (size_t c = chunks.size(); c-- > 0;)
        first[chunks[c].group] = c;
    for (int64_t g = pass->n_groups; g-- > 0;)
        first[g] = std::min(first[g], first[g + 1]);
    parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
        body(g, chunks.data() + first[g], chunks.data() + first[g + 1]);
    });
}

} // namespace tusk
