// Margins and gradients of blocks of sparse rows.
#include "sparse.hpp"

namespace tusk {

template <class T>
void margins(const SparseBlock<T> &rows, const EvenRows<T> &even, const double *w, double b,
             double *m) {
    if (even)
        return even.margins(w, b, m);
    for (int i = 0; i < rows.n; i++)
        m[i] = b + dot_sparse(sparse_row(rows, i), OwnWeights<const double>{w});
}

template <class T>
void add_gradient(const SparseBlock<T> &rows, const EvenRows<T> &even, const double *r,
                  double *g) {
    if (even)
        return even.add_gradient(r, g);
    for (int i = 0; i < rows.n; i++) {
        if (r[i] == 0)
            continue;
        SparseRow<T> row = sparse_row(rows, i);
        for (uint32_t k = 0; k < row.n; k++)
            g[row.index[k]] += r[i] * row.value[k];
    }
}

#define TUSK_VALUES(T)                                                                         \
    template void margins(const SparseBlock<T> &, const EvenRows<T> &, const double *, double, \
                          double *);                                                           \
    template void add_gradient(const SparseBlock<T> &, const EvenRows<T> &, const double *,    \
                               double *);
TUSK_VALUES(float)
TUSK_VALUES(double)

} // namespace tusk
