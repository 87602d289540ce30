// Eigenvalues of a curvature, and a gradient's components along its eigenvectors, for planning.
// Lanczos' method from the gradient makes the curvature tridiagonal; gradient methods depend on
// the curvature only through the eigenvalues of that, and the first components of its eigenvectors
// (Golub and Meurant, Matrices, Moments and Quadrature, 2010, chapter 6). As many steps as there
// are weights yield all eigenvalues; fewer yield those that matter first.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "api.h"
#include "moves.hpp"

namespace tusk {
namespace {

constexpr double NOTHING = 1e-13; // relative to the largest entry: residue of an invariant
                                  // subspace
constexpr int MOST_TURNS = 60;

using Vector = std::vector<double>;

// Row i of a packed triangle, as a row and as a column of the whole: it is read once.
void times_row(const double *__restrict row, const double *__restrict x, double *__restrict y,
               int64_t i) {
    constexpr int64_t WIDTH = 16;
    double sum[WIDTH] = {}, left = row[i] * x[i];
    const double by = x[i];
    int64_t j = 0;
    for (; j + WIDTH <= i; j += WIDTH)
        for (int64_t k = 0; k < WIDTH; k++) {
            sum[k] += row[j + k] * x[j + k];
            y[j + k] += by * row[j + k];
        }
    for (; j < i; j++) {
        left += row[j] * x[j];
        y[j] += by * row[j];
    }
    for (double one : sum)
        left += one;
    y[i] += left;
}

// The packed lower triangle times x; scale: factors of its rows and columns, or null; scaled:
// scratch for them.
void times(const double *packed, const double *scale, const double *x, double *y, int64_t p,
           Vector &scaled) {
    if (scale) {
        for (int64_t i = 0; i < p; i++)
            scaled[i] = scale[i] * x[i];
        x = scaled.data();
    }
    std::fill(y, y + p, 0.0);
    for (int64_t i = 0; i < p; i++)
        times_row(packed + i * (i + 1) / 2, x, y, i);
    for (int64_t i = 0; scale && i < p; i++)
        y[i] *= scale[i];
}

// Makes at most k steps from `start`, with each vector orthogonalised twice against all before it;
// returns their number.
int64_t lanczos(const double *packed, const double *scale, const double *start,
                const tk_tridiagonal &out) {
    const int64_t p = out.p, k = out.k;
    double *const diagonal = out.diagonal, *const beside = out.beside, *const basis = out.basis;
    Vector next(p), scaled(scale ? p : 0);
    const double size = std::sqrt(dot(start, start, p));
    double largest = 0;
    for (int64_t i = 0; i < p; i++)
        basis[i] = start[i] / size;
    for (int64_t j = 0;; j++) {
        const double *last = basis + j * p;
        times(packed, scale, last, next.data(), p, scaled);
        diagonal[j] = dot(last, next.data(), p);
        beside[j] = 0;
        if (j + 1 == k)
            return k;
        for (int again = 0; again < 2; again++)
            for (int64_t i = 0; i <= j; i++)
                add(-dot(basis + i * p, next.data(), p), basis + i * p, next.data(), p);
        const double left = std::sqrt(dot(next.data(), next.data(), p));
        largest = std::max({largest, std::abs(diagonal[j]), left});
        if (!(left > NOTHING * largest))
            return j + 1;
        beside[j] = left;
        for (int64_t i = 0; i < p; i++)
            basis[(j + 1) * p + i] = next[i] / left;
    }
}

// An implicit QL step on the entries from l to m, and its effect on the eigenvectors' first
// components.
void step(double *d, double *e, double *first, int64_t l, int64_t m) {
    double g = (d[l + 1] - d[l]) / (2 * e[l]);
    g = d[m] - d[l] + e[l] / (g + std::copysign(std::hypot(g, 1.0), g));
    double s = 1, c = 1, p = 0;
    for (int64_t i = m - 1; i >= l; i--) {
        const double f = s * e[i], b = c * e[i], h = std::hypot(f, g);
        e[i + 1] = h;
        if (h == 0) {
            d[i + 1] -= p;
            e[m] = 0;
            return;
        }
        s = f / h;
        c = g / h;
        g = d[i + 1] - p;
        const double w = (d[i] - g) * s + 2 * c * b;
        p = s * w;
        d[i + 1] = g + p;
        g = c * w - b;
        const double moved = first[i + 1];
        first[i + 1] = s * first[i] + c * moved;
        first[i] = c * first[i] - s * moved;
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0;
}

// Eigenvalues, left in the diagonal, and the first components of the eigenvectors, by implicit QL
// steps (Golub and Welsch, Calculation of Gauss quadrature rules, 1969). False without
// convergence.
bool settle(int64_t n, double *d, double *e, double *first) {
    std::fill(first, first + n, 0.0);
    first[0] = 1;
    e[n - 1] = 0;
    for (int64_t l = 0; l < n; l++) {
        for (int turn = 0;; turn++) {
            int64_t m = l;
            while (m < n - 1 && std::abs(e[m]) > std::numeric_limits<double>::epsilon() *
                                                     (std::abs(d[m]) + std::abs(d[m + 1])))
                m++;
            if (m == l)
                break;
            if (turn == MOST_TURNS)
                return false;
            step(d, e, first, l, m);
        }
    }
    return true;
}

} // namespace
} // namespace tusk

int64_t tk_lanczos(const double *packed, const double *scale, const double *gradient,
                   const tk_tridiagonal *out) {
    const double size = std::sqrt(tusk::dot(gradient, gradient, out->p));
    if (!(size > 0) || !std::isfinite(size) || out->k < 1)
        return 0;
    return tusk::lanczos(packed, scale, gradient, *out);
}

int tk_quadrature(int64_t k, double *diagonal, double *beside, double *first) {
    return k > 0 && tusk::settle(k, diagonal, beside, first);
}
