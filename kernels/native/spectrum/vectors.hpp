// Dot products and sums of vectors, for planning.
#ifndef TUSK_LINEAR_VECTORS_HPP
#define TUSK_LINEAR_VECTORS_HPP

#include <cstdint>

namespace tusk {

// Eight partial sums, which the compiler may vectorize.
inline double dot(const double *a, const double *b, int64_t n) {
    double sum[8] = {};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int64_t j = 0; j < 8; j++)
            sum[j] += a[i + j] * b[i + j];
    for (; i < n; i++)
        sum[0] += a[i] * b[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

// y += by x.
inline void add(double by, const double *x, double *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] += by * x[i];
}

} // namespace tusk

#endif
