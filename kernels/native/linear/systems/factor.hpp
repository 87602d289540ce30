// The Cholesky factorization of a small symmetric system, H = U' U.
//
// A coordinate whose pivot vanishes depends on those before it, as collinear or constant features
// do. It is left out, like aliased coefficients in R's lm, and the system of the others is solved
// exactly.
//
// U is found by blocks of rows, each of which is subtracted from all rows below it at once (Golub
// and Van Loan, Matrix computations, 2013, 4.2.9), so that a large system is read once per block.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "../../shared/simd.hpp"

namespace tusk {

constexpr double DEPENDENT_PIVOT = 1e-13;

// a[0 .. n - 1] -= by * b, for n a multiple of LANES.
inline void subtract(double *a, const double *b, double by, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES)
        store(a + i, load(a + i) - by * load(b + i));
}

class Factor {
    static constexpr int64_t BLOCK = 8;
    static constexpr int64_t LOOK_EVERY = 1 << 17; // multiplications of vectors between checks

public:
    explicit Factor(int64_t size)
        : p(size), width((size + LANES - 1) / LANES * LANES), u(size * width), inverse(size),
          diagonal(size), step_(width) {}

    int64_t rank = 0;
    double smallest = 1;

    // Factorizes the packed lower triangle. Calls ending() often, and returns false once it
    // returns true.
    template <class Ending> bool decompose(const double *h, const Ending &ending) {
        rank = 0;
        smallest = 1;
        unpack(h);
        int64_t done = 0;
        for (int64_t first = 0; first < p; first += BLOCK) {
            const int64_t last = std::min(first + BLOCK, p);
            for (int64_t k = first; k < last; k++) {
                settle_row(k);
                for (int64_t j = k + 1; j < last; j++)
                    subtract(from(j, j), from(k, j), u[k * width + j], width - down(j));
            }
            for (int64_t j = last; j < p; j++) {
                subtract_block(first, last, j);
                done += (last - first) * (width - down(j)) / LANES;
                if (done < LOOK_EVERY)
                    continue;
                if (ending())
                    return false;
                done = 0;
            }
        }
        return true;
    }

    void solve(const double *g, double *step) {
        double *s = step_.data();
        std::copy_n(g, p, s);
        for (int64_t k = 0; k < p; k++)
            forward(k, s);
        for (int64_t k = p - 1; k >= 0; k--) {
            const double y = s[k];
            s[k] = 0; // not counted below
            v8d sums = {};
            for (int64_t i = down(k); i < width; i += LANES)
                sums += load(u.data() + k * width + i) * load(s + i);
            s[k] = (y - sum(sums)) * inverse[k];
        }
        std::copy_n(s, p, step);
    }

    // diag(H^-1)[j] = sum_i (U^-1)[j][i]^2
    void inverse_diagonal(double *out) {
        double *s = step_.data();
        for (int64_t j = 0; j < p; j++) {
            if (!inverse[j]) {
                out[j] = std::numeric_limits<double>::quiet_NaN();
                continue;
            }
            std::fill(step_.begin(), step_.end(), 0.0);
            s[j] = 1;
            double total = 0;
            for (int64_t i = j; i < p; i++) {
                forward(i, s);
                total += s[i] * s[i];
            }
            out[j] = total;
        }
    }

private:
    static int64_t down(int64_t j) { return j / LANES * LANES; }
    // The vector of row k that holds column j.
    double *from(int64_t k, int64_t j) { return u.data() + k * width + down(j); }

    // Unpacks the upper triangle, with zeros where a vector begins before the diagonal.
    void unpack(const double *h) {
        std::fill(u.begin(), u.end(), 0.0);
        for (int64_t j = 0; j < p; j++) {
            for (int64_t k = 0; k <= j; k++)
                u[k * width + j] = h[k];
            diagonal[j] = h[j];
            h += j + 1;
        }
    }

    // Divides row k by the root of its pivot, after all rows above it were subtracted.
    void settle_row(int64_t k) {
        double *row = u.data() + k * width;
        const double pivot = row[k];
        if (!(pivot > DEPENDENT_PIVOT * diagonal[k] && std::isfinite(pivot))) {
            inverse[k] = 0;
            std::fill(row, row + width, 0.0);
            return;
        }
        rank++;
        smallest = std::min(smallest, pivot / diagonal[k]);
        inverse[k] = 1 / std::sqrt(pivot);
        std::fill(row + down(k), row + k, 0.0);
        for (int64_t i = down(k); i < width; i += LANES)
            store(row + i, load(row + i) * inverse[k]);
    }

    // Subtracts the products of rows first .. last - 1 from row j.
    void subtract_block(int64_t first, int64_t last, int64_t j) {
        if (last - first < BLOCK) {
            for (int64_t k = first; k < last; k++)
                subtract(from(j, j), from(k, j), u[k * width + j], width - down(j));
            return;
        }
        double *row = u.data() + j * width;
        const double *above = u.data() + first * width;
        double by[BLOCK];
        for (int64_t k = 0; k < BLOCK; k++)
            by[k] = above[k * width + j];
        for (int64_t i = down(j); i < width; i += LANES) {
            v8d left = load(row + i);
            for (int64_t k = 0; k < BLOCK; k++)
                left -= by[k] * load(above + k * width + i);
            store(row + i, left);
        }
    }

    // One step of U' y = s: s[k] becomes y[k], and is subtracted from those after it.
    void forward(int64_t k, double *s) {
        const double y = inverse[k] ? s[k] * inverse[k] : 0, *row = u.data() + k * width;
        for (int64_t i = down(k); i < width; i += LANES)
            store(s + i, load(s + i) - y * load(row + i));
        s[k] = y;
    }

    const int64_t p, width;
    std::vector<double> u;       // (p, width), upper triangle; rows without a pivot are 0
    std::vector<double> inverse; // inverse of the diagonal of U, 0 without a pivot
    std::vector<double> diagonal, step_;
};

} // namespace tusk
