// Vectors of eight doubles, whatever the size of the machine's registers. Conversion of stored
// values to doubles is in values.hpp, because the processor header that it includes takes longer
// to compile than most kernels.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace tusk {

using v8d = double __attribute__((vector_size(64)));
using v8i = int64_t __attribute__((vector_size(64)));

constexpr int LANES = 8;

inline v8d splat(double x) {
    return v8d{x, x, x, x, x, x, x, x};
}

// The largest part of a v8d that fits in one register. Longer vectors compile to poor code: values
// that a loop carries are kept in memory, and comparisons are scalar.
#if defined(__AVX512F__)
using vpart = v8d;
template <int P> inline vpart part(v8d v) {
    return v;
}
inline v8d joined(const vpart *parts) {
    return parts[0];
}
#else
using vpart = double __attribute__((vector_size(32)));
template <int P> inline vpart part(v8d v) {
    return __builtin_shufflevector(v, v, 4 * P, 4 * P + 1, 4 * P + 2, 4 * P + 3);
}
inline v8d joined(const vpart *parts) {
    return __builtin_shufflevector(parts[0], parts[1], 0, 1, 2, 3, 4, 5, 6, 7);
}
#endif
constexpr int PARTS = sizeof(v8d) / sizeof(vpart), PART = LANES / PARTS;

// These work on v8d and on vpart.
template <class V> using Mask = decltype(V{} > V{});
template <class V> inline V select(Mask<V> mask, V a, V b) {
    return mask ? a : b;
}
template <class V> inline V vmax(V a, V b) {
    return select<V>(a > b, a, b);
}
template <class V> inline V vabs(V a) {
    return (V)((Mask<V>)a & INT64_MAX);
}

inline v8d load(const double *p) {
    v8d v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(double *p, v8d v) {
    std::memcpy(p, &v, sizeof v);
}

inline void store_tail(double *p, v8d v, int n) {
    std::memcpy(p, &v, n * sizeof *p);
}

// Adds halves first: if lanes are added one by one, compilers go through memory.
inline double sum(v8d v) {
    using v4d = double __attribute__((vector_size(32)));
    v4d s = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

// Lane i of the result is the sum of a[i].
inline v8d sum_each(const v8d *a) {
    v8d b[4], c[2];
    for (int i = 0; i < 4; i++)
        b[i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14) +
               __builtin_shufflevector(a[2 * i], a[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    for (int i = 0; i < 2; i++)
        c[i] = __builtin_shufflevector(b[2 * i], b[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
               __builtin_shufflevector(b[2 * i], b[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
    return __builtin_shufflevector(c[0], c[1], 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(c[0], c[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

// exp(x) for x <= 0, to about one unit in the last place; the result is 0 below -708. Writes
// x = k ln 2 + r with |r| <= ln 2 / 2, where ln 2 is split in two parts (Cody and Waite), and
// takes exp(r) from its Taylor polynomial of degree 13.
template <class V> inline V exp_negative(V x) {
    const V shifter = V{} + 0x1.8p52;
    V k = x * 1.4426950408889634074 + shifter;
    Mask<V> exponent = (Mask<V>)k;
    k -= shifter;
    V r = x - k * 6.93147180369123816490e-01;
    r -= k * 1.90821492927058770002e-10;
    static const double inverse_factorial[] = {1.0 / 6227020800,
                                               1.0 / 479001600,
                                               1.0 / 39916800,
                                               1.0 / 3628800,
                                               1.0 / 362880,
                                               1.0 / 40320,
                                               1.0 / 5040,
                                               1.0 / 720,
                                               1.0 / 120,
                                               1.0 / 24,
                                               1.0 / 6,
                                               0.5,
                                               1.0,
                                               1.0};
    V p = V{} + inverse_factorial[0];
    for (int i = 1; i < 14; i++)
        p = p * r + inverse_factorial[i];
    V scale = (V)((exponent + 1023) << 52);
    return select<V>(x < -708.0, V{}, p * scale);
}

// log(1 + t) for 0 <= t <= 1: the series of 2 atanh(s) around 1 or around 3/2, where |s| <= 1/5.
template <class V> inline V log1p_unit(V t) {
    Mask<V> high = t > 0.5;
    V u = select<V>(high, (t - 0.5) * (2.0 / 3.0), t);
    V s = u / (u + 2.0);
    V q = s * s;
    V p = V{} + 1.0 / 21;
    for (int k = 19; k >= 1; k -= 2)
        p = p * q + 1.0 / k;
    return 2.0 * s * p + select<V>(high, V{} + 0.40546510810816438198, V{});
}

} // namespace tusk
