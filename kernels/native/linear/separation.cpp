// How the margins of two classes change along a direction. This decides whether the logistic loss
// has an optimum (learners/linear/inference/separation.py).
#include <cmath>
#include <limits>
#include <vector>

#include "api.h"
#include "dense.hpp"
#include "sparse.hpp"

namespace tusk {
namespace {

// The values that tk_margin_reach returns, for one group or for some of its rows.
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

    // Takes the margin and the move of one row, both times its label's sign. If one is not finite,
    // sets all values to extremes that prove nothing.
    void take(double margin, double move) {
        if (!(std::isfinite(margin) && std::isfinite(move))) {
            merge({-HUGE_VAL, -HUGE_VAL, HUGE_VAL, HUGE_VAL});
            return;
        }
        double right = 1 / (1 + std::exp(-margin));
        merge({margin, move, move, right * std::fabs(move)});
    }
};

template <class Rows>
void margins_of(const Rows &rows, int n, int64_t d, const double *, const double *padded_w,
                double *m) {
    margins(rows, n, d, padded_w, padded_w[padded(d)], m);
}
template <class T>
void margins_of(const SparseBlock<T> &rows, int, int64_t d, const double *w, const double *,
                double *m) {
    margins(rows, w, w[d], m);
}

template <class T>
void reach_of_chunk(const tk_pass *pass, const Chunk &c, const double *w, const double *padded_w,
                    const double *u, const double *padded_u, Reach *out) {
    int64_t d = pass->groups[0].dim;
    double positive = pass->positive[c.group];
    alignas(64) double m[BLOCK_ROWS], move[BLOCK_ROWS];
    auto block = [&](const auto &rows, const double *y, int n) {
        margins_of(rows, n, d, w, padded_w, m);
        margins_of(rows, n, d, u, padded_u, move);
        for (int i = 0; i < n; i++) {
            double sign = y[i] == positive ? 1 : -1;
            out->take(sign * m[i], sign * move[i]);
        }
    };
    if (tusk_is_sparse(pass->groups[0].kind))
        for_sparse_blocks<T>(c, BLOCK_ROWS,
                             [&](const SparseBlock<T> &rows) { block(rows, rows.y, rows.n); });
    else
        for_dense_blocks<T>(c, d, block_rows<T>(d), block);
}

template <class T>
int margin_reach(const tk_pass *pass, const double *weights, const double *direction,
                 double *out) {
    int64_t p = pass->groups[0].dim + 1;
    bool sparse = tusk_is_sparse(pass->groups[0].kind);
    const PaddedWeights at = sparse ? PaddedWeights() : PaddedWeights(pass, weights);
    const PaddedWeights along = sparse ? PaddedWeights() : PaddedWeights(pass, direction);
    auto chunks = make_chunks(pass, chunk_rows_for(pass));
    std::vector<Reach> each(chunks.size()), all(pass->n_groups);
    parallel_for((int64_t)chunks.size(), pass->threads, [&](int64_t i) {
        const Chunk &c = chunks[i];
        if (cancelled(pass->cancel_mark))
            return;
        reach_of_chunk<T>(pass, c, weights + c.group * p, at.of(c.group), direction + c.group * p,
                          along.of(c.group), &each[i]);
    });
    for (size_t i = 0; i < chunks.size(); i++)
        all[chunks[i].group].merge(each[i]);
    for (int64_t g = 0; g < pass->n_groups; g++) {
        const double found[] = {all[g].least_margin, all[g].least_move, all[g].most_move,
                                all[g].most_share};
        std::copy_n(found, 4, out + 4 * g);
    }
    return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
}

} // namespace
} // namespace tusk

int tk_margin_reach(const tk_pass *pass, const double *weights, const double *direction,
                    double *out) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            return margin_reach<T>(pass, weights, direction, out);
        });
    });
}
