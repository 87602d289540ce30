// Rows of a group, as samples: all of them, or those in a fold or outside it.
#include "rows.hpp"

#include <numeric>

#include "../shared/pool.hpp"
#include "dense.hpp"
#include "sparse.hpp"

namespace tusk {
namespace {

// Calls body(segment, row in it, row) for each of a group's rows.
template <class Body> void each_row(const tusk_group &group, Body body) {
    int64_t row = 0;
    for (const tusk_segment *s : SegmentsOf(group))
        for (uint32_t i = 0; i < s->n_rows && row < group.n_rows; i++)
            body(s, i, row++);
}

template <class T> SparseRow<T> sparse_row(const tusk_segment *s, uint32_t i) {
    uint32_t from = tusk_row_starts(s)[i];
    return {tusk_indices(s) + from, (const T *)tusk_sparse_values(s) + from,
            tusk_row_starts(s)[i + 1] - from};
}

template <class T>
std::vector<T> ordered(const std::vector<T> &items, const std::vector<int64_t> &order) {
    std::vector<T> out;
    out.reserve(items.size());
    for (int64_t at : order)
        out.push_back(items[at]);
    return out;
}

template <class T>
void collect(const tusk_group &g, const std::vector<uint8_t> &taken, const Taken &which,
             bool centred, int threads, tusk_memory *memory, Sample &out, int *code) {
    std::vector<const T *> dense;
    std::vector<SparseRow<T>> sparse;
    bool is_sparse = tusk_is_sparse(g.kind);
    each_row(g, [&](const tusk_segment *s, uint32_t i, int64_t row) {
        if (!taken.empty() && !taken[row])
            return;
        if (is_sparse)
            sparse.push_back(sparse_row<T>(s, i));
        else
            dense.push_back((const T *)tusk_dense_values(s) + (int64_t)i * g.dim);
    });
    if (!is_sparse) {
        if (which.order)
            dense = ordered(dense, *which.order);
        out.features = std::make_unique<DenseFeatures<T>>(std::move(dense), g.dim, threads);
        return;
    }
    auto made = std::make_unique<SparseFeatures>((int64_t)sparse.size(), g.dim, threads);
    *code = made->fill(sparse, centred, memory);
    out.features = std::move(made);
}

} // namespace

Sample sample_of(const tk_pass *pass, int64_t group, const Taken &which, int threads,
                 tusk_memory *memory, int *code) {
    const tusk_group &g = pass->groups[group];
    tusk_shape shape = tusk_shape_of(&g);
    Sample out;
    std::vector<uint8_t> taken(which.stretch ? g.n_rows : 0);
    each_row(g, [&](const tusk_segment *s, uint32_t i, int64_t row) {
        if (which.stretch && !(taken[row] = which.has(row)))
            return;
        double y = tusk_labels(s)[i];
        const double *weight = tusk_extra(s, shape, TUSK_WEIGHTS);
        out.y.push_back(pass->positive ? y == pass->positive[group] : y);
        out.a.push_back(weight ? weight[i] : 1.0);
    });
    if (which.order) {
        out.y = ordered(out.y, *which.order);
        out.a = ordered(out.a, *which.order);
    }
    out.weight = std::accumulate(out.a.begin(), out.a.end(), 0.0);
    *code = TK_OK;
    if (g.kind & 1)
        collect<double>(g, taken, which, !!pass->fit_intercept, threads, memory, out, code);
    else
        collect<float>(g, taken, which, !!pass->fit_intercept, threads, memory, out, code);
    return out;
}

} // namespace tusk
