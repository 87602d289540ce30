// Sums over arrays of doubles.
#pragma once

#include "../shared/simd.hpp"

namespace tusk {

inline double dot(const double *a, const double *b, int64_t n) {
    v8d s0{}, s1{}, s2{}, s3{};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        s0 += load(a + i) * load(b + i);
        s1 += load(a + i + LANES) * load(b + i + LANES);
        s2 += load(a + i + 2 * LANES) * load(b + i + 2 * LANES);
        s3 += load(a + i + 3 * LANES) * load(b + i + 3 * LANES);
    }
    for (; i + LANES <= n; i += LANES)
        s0 += load(a + i) * load(b + i);
    double rest = 0;
    for (; i < n; i++)
        rest += a[i] * b[i];
    return sum((s0 + s1) + (s2 + s3)) + rest;
}

// a += factor * b
inline void add(double *a, double factor, const double *b, int64_t n) {
    v8d by = splat(factor);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(a + i, load(a + i) + by * load(b + i));
    for (; i < n; i++)
        a[i] += factor * b[i];
}

} // namespace tusk
