// Distances of the margins of rows from a separation of their classes, and their moves along a
// direction; learners/linear/inference/separation.py draws the conclusions.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "rows.hpp"

namespace tusk {

// Over rows: the least margin of the true class, the least and the largest move of it, and the
// largest share of a proof that there is an optimum.
struct Reach {
    double least_margin = std::numeric_limits<double>::infinity();
    double least_move = std::numeric_limits<double>::infinity();
    double most_move = -std::numeric_limits<double>::infinity();
    double most_share = 0;

    void merge(const Reach &o) {
        least_margin = std::min(least_margin, o.least_margin);
        least_move = std::min(least_move, o.least_move);
        most_move = std::max(most_move, o.most_move);
        most_share = std::max(most_share, o.most_share);
    }

    // A number that is not finite sets all values to extremes that prove nothing.
    void take(double margin, double move, double share) {
        if (std::isfinite(margin) && std::isfinite(move) && std::isfinite(share))
            merge({margin, move, move, share});
        else
            merge({-HUGE_VAL, -HUGE_VAL, HUGE_VAL, HUGE_VAL});
    }
};

// Writes four numbers for each group, with body(chunk, reach) for each chunk.
template <class Body> int reach_by_group(const tk_pass *pass, double *out, Body &&body) {
    auto chunks = make_chunks(pass, chunk_rows_for(pass));
    std::vector<Reach> each(chunks.size()), all(pass->n_groups);
    parallel_for((int64_t)chunks.size(), pass->threads, [&](int64_t i) {
        if (!cancelled(pass->cancel_mark))
            body(chunks[i], &each[i]);
    });
    for (size_t i = 0; i < chunks.size(); i++)
        all[chunks[i].group].merge(each[i]);
    for (const Reach &one : all) {
        const double found[] = {one.least_margin, one.least_move, one.most_move, one.most_share};
        out = std::copy_n(found, 4, out);
    }
    return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
}

} // namespace tusk
