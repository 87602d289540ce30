// Rows that several groups of a pass have in common, such as the folds of a cross-validation.
//
// Each stretch of rows is read once, for the weights of all groups that have it. A group's sums
// are added in the order of its own rows, so that they do not depend on the other groups.
#pragma once

#include <vector>

#include "../rows.hpp"

namespace tusk {

// Rows of one segment, read for `uses` groups; group: the first of them.
struct Stretch {
    Chunk rows;
    int64_t first_use, uses;
};

class CommonRows {
public:
    CommonRows(const tk_pass *pass, int64_t most_rows);

    // Sums over rows like `sum_over_chunks`. body(chunk, groups, acc) is called once for all
    // groups that have the rows; acc has `width` sums of each.
    using Body = void(const Chunk &, const std::vector<int64_t> &, double *);
    int sum(const tk_pass *pass, int64_t width, double *out, Ref<Body> body) const;

private:
    // For a group that is being added: the segments of earlier groups that it may share.
    struct Known {
        const tusk_segment *segment;
        int64_t rows, first, count;
    };

    void add_group(const tk_pass *pass, int64_t g, int64_t most_rows, std::vector<Known> &known);

    std::vector<Stretch> stretches_;
    std::vector<int64_t> group_of_use_; // by stretch
    std::vector<int64_t> stretch_of_;   // of each group in turn, in the order of its rows
    std::vector<int64_t> begin_;        // of each group in stretch_of_, and the end
    std::vector<int64_t> use_of_;       // parallel to stretch_of_
};

} // namespace tusk
