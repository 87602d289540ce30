// Loss and gradient in one pass over the rows: f(w) = sum l(m_i) with m_i = w.x_i + b, df/dw = sum
// l'(m_i) x_i, df/db = sum l'(m_i).
#include <vector>

#include "../shared/common/rows.hpp"
#include "api.h"
#include "dense.hpp"
#include "sparse.hpp"

namespace tusk {
namespace {

// Layout of one group's sums.
enum { LOSS = 0, ROWS = 1, GRADIENT = 2 };

template <class T>
void dense_chunk(const tk_pass *pass, const Chunk &c, const PaddedWeights &weights, double *g,
                 double *out) {
    const Loss loss(pass, c.group);
    const Labels labels(pass, c.group);
    const int64_t d = pass->groups[0].dim;
    const double *w = weights.of(c.group), b = weights.intercept(c.group);
    const bool loss_only = pass->loss_only, flat = all_zero(w, d);
    alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS];
    double total = 0, intercept = 0, rows = 0;
    for_dense_blocks<T>(c, d, block_rows<T>(d), [&](const auto &x, const Targets &y, int n) {
        if (flat)
            std::fill(m, m + n, b);
        else
            margins(x, n, d, w, b, m);
        rows += weight_of(y, n);
        total += evaluate(loss, labels, m, y, n, r, nullptr);
        if (loss_only)
            return;
        add_gradient(x, n, d, r, g);
        intercept += sum_block(r);
    });
    out[LOSS] += total;
    out[ROWS] += rows;
    if (!loss_only)
        out[GRADIENT + d] += intercept;
}

template <class T> int dense_gradient(const tk_pass *pass, const double *weights, double *out) {
    int64_t d = pass->groups[0].dim, width = padded(d);
    PaddedWeights w(pass, weights);
    int64_t sums = pass->loss_only ? (int64_t)GRADIENT : d + 3;
    auto add = [&](const Chunk &c, double *acc) {
        // Common widths use the stack, so that small groups allocate nothing.
        double small[256] = {0};
        std::vector<double> large(width > 256 ? width : 0, 0.0);
        double *g = width > 256 ? large.data() : small;
        dense_chunk<T>(pass, c, w, g, acc);
        for (int64_t k = 0; k < d && !pass->loss_only; k++)
            acc[GRADIENT + k] += g[k];
    };
    if (pass->common && pass->stride == 1)
        return CommonRows(pass, chunk_rows_for(pass)).sum(pass, sums, out, add);
    return sum_over_chunks(pass, make_chunks(pass, chunk_rows_for(pass)), sums, out, add);
}

} // namespace
} // namespace tusk

int tk_gradient(const tk_pass *pass, const double *weights, double *out) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            if (tusk_is_sparse(pass->groups[0].kind))
                return sparse_gradient<T>(pass, weights, out);
            return dense_gradient<T>(pass, weights, out);
        });
    });
}
