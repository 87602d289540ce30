// Eigenvalues of small symmetric matrices by cyclic rotations. Golub and Van Loan, Matrix
// Computations, fourth edition, algorithm 8.5.3.
#pragma once

#include <cmath>
#include <cstdint>

namespace tusk {

constexpr int MOST_SWEEPS = 30;
constexpr double NOTHING = 1e-15; // limit off the diagonal, for matrices with eigenvalues of at
                                  // most 1

// One rotation of rows and columns i < j of m, and of rows i and j of vectors.
inline void rotate(double *m, double *vectors, int64_t n, int64_t i, int64_t j) {
    double apart = (m[j * n + j] - m[i * n + i]) / (2 * m[i * n + j]);
    double t = std::copysign(1.0, apart) / (std::fabs(apart) + std::hypot(1.0, apart));
    double c = 1 / std::sqrt(1 + t * t), s = t * c;
    auto turn = [c, s](double &a, double &b) {
        double first = a;
        a = c * first - s * b;
        b = s * first + c * b;
    };
    for (int64_t k = 0; k < n; k++)
        turn(m[k * n + i], m[k * n + j]);
    for (int64_t k = 0; k < n; k++)
        turn(m[i * n + k], m[j * n + k]);
    for (int64_t k = 0; k < n; k++)
        turn(vectors[i * n + k], vectors[j * n + k]);
}

// m (n, n), symmetric, gets its eigenvalues on the diagonal; row e of vectors (n, n) is the
// eigenvector of the value e.
inline void eigen(double *m, double *vectors, int64_t n) {
    for (int64_t k = 0; k < n * n; k++)
        vectors[k] = k % (n + 1) == 0;
    for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
        bool moved = false;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i + 1; j < n; j++)
                if (std::fabs(m[i * n + j]) > NOTHING) {
                    rotate(m, vectors, n, i, j);
                    moved = true;
                }
        if (!moved)
            return;
    }
}

} // namespace tusk
