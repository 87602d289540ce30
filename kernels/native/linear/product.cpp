// The product of the loss's curvature and a direction u, sum h_i (x_i.u) x_i with h_i = l''(m_i).
// One pass over the rows computes it without forming the curvature. Conjugate gradients need only
// this product (Lin, Weng and Keerthi, Trust region Newton method for logistic regression, JMLR
// 2008, section 3).
#include <vector>

#include "api.h"
#include "dense.hpp"
#include "numbered.hpp"

namespace tusk {
namespace {

struct Product {
    const tk_pass *pass;
    const double *weights, *direction;
    double *h, *out, *diagonal; // h: of the next row to read
    int64_t d;
};

template <class T>
void margins_at(const SparseBlock<T> &rows, int, int64_t d, const double *w, double *m) {
    margins(rows, w, w[d], m);
}
template <class Rows>
void margins_at(const Rows &rows, int n, int64_t d, const double *w, double *m) {
    margins(rows, n, d, w, w[padded(d)], m);
}
template <class T>
void add_rows(const SparseBlock<T> &rows, int, int64_t, const double *r, double *sums) {
    add_gradient(rows, r, sums);
}
template <class Rows>
void add_rows(const Rows &rows, int n, int64_t d, const double *r, double *sums) {
    add_gradient(rows, n, d, r, sums);
}
template <class T>
void add_squares(const SparseBlock<T> &rows, int n, int64_t, const double *h, double *sums) {
    for (int i = 0; i < n; i++)
        for (uint32_t k = rows.start[i]; k < rows.start[i + 1]; k++)
            sums[rows.index[k]] += h[i] * (double)rows.value[k] * (double)rows.value[k];
}
template <class Rows>
void add_squares(const Rows &, int, int64_t d, const double *h, double *sums) {
    double total = sum_block(h);
    for (int64_t k = 0; k < d; k++)
        sums[k] += total;
}

// Adds one block of a chunk. Sums run over BLOCK_ROWS items, so the items from n on must be 0.
template <class Rows>
void block(const Rows &rows, const Targets &y, int n, const Loss &loss, const Labels &labels,
           Product &to, double *sums) {
    alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS] = {}, h[BLOCK_ROWS];
    if (to.weights) {
        margins_at(rows, n, to.d, to.weights, m);
        derivatives(loss, labels, m, y, n, r, h);
        if (to.h)
            std::copy_n(h, n, to.h);
        add_squares(rows, n, to.d, h, to.diagonal);
        to.diagonal[to.d] += sum_block(h);
        to.diagonal[to.d + 1] += weight_of(y, n);
        std::fill(r, r + BLOCK_ROWS, 0.0);
    }
    margins_at(rows, n, to.d, to.direction, m);
    for (int i = 0; i < n; i++)
        r[i] = to.h ? to.h[i] * m[i] : y.weight ? y.weight[i] * m[i] : m[i];
    add_rows(rows, n, to.d, r, sums);
    to.out[to.d] += sum_block(r);
    if (to.h)
        to.h += n;
}

// The arguments for one chunk, whose sums go to acc. weights and direction are those of its group,
// padded for dense rows.
Product product_of(const Product &whole, const Numbered &rows, const Chunk &c,
                   const int64_t *offset, const double *weights, const double *direction,
                   double *acc) {
    Product to = whole;
    to.weights = whole.weights ? weights : nullptr;
    to.direction = direction;
    to.h = whole.h ? whole.h + offset[c.group] + rows.first_of(c) : nullptr;
    to.out = acc;
    to.diagonal = acc + whole.d + 1;
    return to;
}

template <class T>
int dense_product(const tk_pass *pass, const Product &whole, const int64_t *offset, double *sums) {
    int64_t d = whole.d, p = d + 1;
    PaddedWeights weights(pass, whole.weights), along(pass, whole.direction);
    Numbered rows(pass);
    return sum_over_chunks(pass, rows.chunks, 2 * p + 1, sums, [&](const Chunk &c, double *acc) {
        std::vector<double> added(padded(d), 0.0);
        Product to =
            product_of(whole, rows, c, offset, weights.of(c.group), along.of(c.group), acc);
        for_dense_blocks<T>(c, d, block_rows<T>(d), [&](const auto &x, const Targets &y, int n) {
            block(x, y, n, Loss(pass, c.group), Labels(pass, c.group), to, added.data());
        });
        for (int64_t k = 0; k < d; k++)
            acc[k] += added[k];
    });
}

template <class T>
int sparse_product(const tk_pass *pass, const Product &whole, const int64_t *offset,
                   double *sums) {
    int64_t p = whole.d + 1, width = whole.weights ? 2 * p + 1 : p;
    auto some =
        make_chunks(pass, [&](int64_t g) { return sparse_chunk_rows(pass->groups[g], false); });
    Numbered rows(pass, std::move(some));
    return sum_over_chunks(pass, rows.chunks, width, sums, [&](const Chunk &c, double *acc) {
        Product to = product_of(whole, rows, c, offset, whole.weights + c.group * p,
                                whole.direction + c.group * p, acc);
        for_sparse_blocks<T>(c, BLOCK_ROWS, [&](const SparseBlock<T> &x) {
            if (!cancelled(pass->cancel_mark))
                block(x, x.y, x.n, Loss(pass, c.group), Labels(pass, c.group), to, acc);
            else if (to.h)
                to.h += x.n;
        });
    });
}

} // namespace
} // namespace tusk

int tk_curvature_times(const tk_pass *pass, const double *weights, const double *direction,
                       const int64_t *offset, double *h, double *out, double *diagonal) {
    using namespace tusk;
    return code_of([&] {
        int64_t p = pass->groups[0].dim + 1;
        bool sparse = tusk_is_sparse(pass->groups[0].kind);
        int64_t width = sparse && !weights ? p : 2 * p + 1;
        Counted counted(pass->n_groups * width * (int64_t)sizeof(double));
        std::vector<double> sums(pass->n_groups * width);
        Product whole{pass, weights, direction, h, nullptr, nullptr, p - 1};
        int code = with_storage(pass, [&]<class T>(const T *) {
            return sparse ? sparse_product<T>(pass, whole, offset, sums.data())
                          : dense_product<T>(pass, whole, offset, sums.data());
        });
        for (int64_t g = 0; g < pass->n_groups; g++) {
            const double *of_group = sums.data() + g * width;
            for (int64_t k = 0; k < p; k++)
                out[g * p + k] = of_group[k];
            for (int64_t k = 0; k <= p && weights; k++)
                diagonal[g * (p + 1) + k] = of_group[p + k];
        }
        return code;
    });
}
