// How the margins of two classes change along a direction. This decides whether the logistic loss
// has an optimum (learners/linear/inference/separation.py).
#include "../shared/reach.hpp"
#include "api.h"
#include "dense.hpp"
#include "sparse.hpp"

namespace tusk {
namespace {

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
            double right = 1 / (1 + std::exp(-sign * m[i]));
            out->take(sign * m[i], sign * move[i], right * std::fabs(move[i]));
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
    return reach_by_group(pass, out, [&](const Chunk &c, Reach *found) {
        reach_of_chunk<T>(pass, c, weights + c.group * p, at.of(c.group), direction + c.group * p,
                          along.of(c.group), found);
    });
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
