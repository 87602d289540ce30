// Changes of the margins of two classes, or of counts, along a direction, which decide whether the
// loss has an optimum (learners/linear/inference/separation.py).
#include "../shared/reach.hpp"
#include "api.h"
#include "links.hpp"
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

// Adds a row of one of two classes: m is its margin without the offset, whole with it.
void take_class(double sign, double m, double whole, double move, double far, Reach *out) {
    if (sign * whole > far)
        return;
    double right = 1 / (1 + std::exp(-sign * whole));
    out->take(sign * m, sign * move, right * std::fabs(move));
}

// Adds a row of counts: a margin may fall if y is 0, and must stay otherwise.
void take_count(double y, double whole, double move, double far, Reach *out) {
    if (y > 0)
        out->take(0, std::fabs(move), 0);
    else if (-whole <= far)
        out->take(0, -move, std::fabs(move));
}

template <class T>
void reach_of_chunk(const tk_pass *pass, const Chunk &c, const double *w, const double *padded_w,
                    const double *u, const double *padded_u, double far, Reach *out) {
    int64_t d = pass->groups[0].dim;
    bool classes = has_classes((LossKind)pass->loss);
    double positive = classes ? pass->positive[c.group] : 0;
    alignas(64) double m[BLOCK_ROWS], move[BLOCK_ROWS];
    auto block = [&](const auto &rows, const Targets &y, int n) {
        margins_of(rows, n, d, w, padded_w, m);
        margins_of(rows, n, d, u, padded_u, move);
        for (int i = 0; i < n; i++) {
            double whole = m[i] + (y.offset ? y.offset[i] : 0);
            if (classes)
                take_class(y.y[i] == positive ? 1 : -1, m[i], whole, move[i], far, out);
            else
                take_count(y.y[i], whole, move[i], far, out);
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
                 const double *far, double *out) {
    int64_t p = pass->groups[0].dim + 1;
    bool sparse = tusk_is_sparse(pass->groups[0].kind);
    const PaddedWeights at = sparse ? PaddedWeights() : PaddedWeights(pass, weights);
    const PaddedWeights along = sparse ? PaddedWeights() : PaddedWeights(pass, direction);
    return reach_by_group(pass, out, [&](const Chunk &c, Reach *found) {
        reach_of_chunk<T>(pass, c, weights + c.group * p, at.of(c.group), direction + c.group * p,
                          along.of(c.group), far[c.group], found);
    });
}

} // namespace
} // namespace tusk

int tk_margin_reach(const tk_pass *pass, const double *weights, const double *direction,
                    const double *far, double *out) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            return margin_reach<T>(pass, weights, direction, far, out);
        });
    });
}
