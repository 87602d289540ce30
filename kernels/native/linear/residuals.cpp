// The median of absolute residuals, for a robust estimate of scale.
#include <cmath>
#include <numeric>
#include <vector>

#include "../shared/working.hpp"
#include "api.h"
#include "dense.hpp"
#include "numbered.hpp"

namespace tusk {
namespace {

constexpr double HALF = 1e-12; // relative rounding error of sums of weights

// A row's absolute residual and its weight.
struct Residual {
    double size, weight;
};

// The weighted median of n residuals, which are reordered. Halves a range that contains it.
double median(Residual *rows, int64_t n) {
    double whole = 0, below = 0;
    for (int64_t i = 0; i < n; i++)
        whole += rows[i].weight;
    double half = whole / 2, slack = HALF * whole;
    Residual *first = rows, *last = rows + n, *end = last;
    auto less = [](const Residual &a, const Residual &b) { return a.size < b.size; };
    while (last - first > 1) { // the median is in [first, last), earlier rows weigh `below`
        Residual *middle = first + (last - first) / 2;
        std::nth_element(first, middle, last, less);
        double weight = 0;
        for (Residual *r = first; r < middle; r++)
            weight += r->weight;
        if (below + weight >= half - slack) {
            last = middle;
        } else {
            below += weight;
            first = middle;
        }
    }
    double low = first->size;
    if (below + first->weight > half + slack)
        return low;
    double high = HUGE_VAL; // half of the weight is at or below the lower one
    for (Residual *r = first + 1; r < end; r++)
        if (r->weight > 0)
            high = std::min(high, r->size);
    return std::isinf(high) ? low : low + (high - low) / 2;
}

template <class T> int residuals(const tk_pass *pass, const double *weights, Residual *out) {
    int64_t d = pass->groups[0].dim;
    bool sparse = tusk_is_sparse(pass->groups[0].kind);
    const PaddedWeights padded = sparse ? PaddedWeights() : PaddedWeights(pass, weights);
    Numbered rows(pass);
    std::vector<int64_t> offset(pass->n_groups, 0);
    std::partial_sum(rows.n_rows.begin(), rows.n_rows.end() - 1, offset.begin() + 1);
    std::vector<double> nothing(pass->n_groups);
    int code =
        sum_over_chunks(pass, rows.chunks, 1, nothing.data(), [&](const Chunk &c, double *) {
            const double *w = weights + c.group * (d + 1);
            Residual *to = out + offset[c.group] + rows.first_of(c);
            alignas(64) double m[BLOCK_ROWS];
            auto add = [&](const Targets &y, int n) {
                add_offsets(y, n, m);
                for (int i = 0; i < n; i++) {
                    double size = std::fabs(m[i] - y.y[i]);
                    *to++ = {size < HUGE_VAL ? size : HUGE_VAL, y.weight ? y.weight[i] : 1};
                }
            };
            if (sparse)
                for_sparse_blocks<T>(c, BLOCK_ROWS, [&](const SparseBlock<T> &x) {
                    margins(x, w, w[d], m);
                    add(x.y, x.n);
                });
            else
                for_dense_blocks<T>(c, d, block_rows<T>(d),
                                    [&](const auto &x, const Targets &y, int n) {
                                        margins(x, n, d, padded.of(c.group), w[d], m);
                                        add(y, n);
                                    });
        });
    return code;
}

} // namespace
} // namespace tusk

int tk_median_residual(const tk_pass *pass, const double *weights, double *out) {
    using namespace tusk;
    return code_of([&] {
        std::vector<int64_t> first(pass->n_groups + 1, 0);
        for (int64_t g = 0; g < pass->n_groups; g++)
            first[g + 1] = first[g] + pass->groups[g].n_rows;
        Counted counted(first.back() * (int64_t)sizeof(Residual));
        std::vector<Residual> rows(first.back());
        int code = with_storage(
            pass, [&]<class T>(const T *) { return residuals<T>(pass, weights, rows.data()); });
        if (code == TK_OK)
            parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
                out[g] = median(rows.data() + first[g], first[g + 1] - first[g]);
            });
        return code;
    });
}
