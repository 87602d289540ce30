// Eight doubles at a time, whatever the machine's registers: rows are stored as float or double,
// arithmetic is double.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tusk {

using v8d = double __attribute__((vector_size(64)));
using v8i = int64_t __attribute__((vector_size(64)));
using v8f = float __attribute__((vector_size(32)));

constexpr int LANES = 8;

inline v8d splat(double x) {
    return v8d{x, x, x, x, x, x, x, x};
}
inline v8d select(v8i mask, v8d a, v8d b) {
    return mask ? a : b;
}
inline v8d vmax(v8d a, v8d b) {
    return select(a > b, a, b);
}
inline v8d vabs(v8d a) {
    return (v8d)((v8i)a & INT64_MAX);
}

inline v8d load(const double *p) {
    v8d v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

// Compilers split the conversion of eight floats in two; one instruction does it.
inline v8d widen(v8f v) {
#if defined(__AVX512F__)
    return (v8d)_mm512_maskz_cvtps_pd(0xff, (__m256)v);
#else
    return __builtin_convertvector(v, v8d);
#endif
}
inline v8f narrow(v8d v) {
#if defined(__AVX512F__)
    return (v8f)_mm512_maskz_cvtpd_ps(0xff, (__m512d)v);
#else
    return __builtin_convertvector(v, v8f);
#endif
}
inline v8d load(const float *p) {
    v8f v;
    std::memcpy(&v, p, sizeof v);
    return widen(v);
}
inline void store(double *p, v8d v) {
    std::memcpy(p, &v, sizeof v);
}

// The first n < 8 values, zeros behind them; nothing beyond them is read.
#if defined(__AVX512F__)
inline v8d load_tail(const double *p, int n) {
    return (v8d)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
}
#if defined(__AVX512VL__)
inline v8d load_tail(const float *p, int n) {
    return widen((v8f)_mm256_maskz_loadu_ps((__mmask8)((1u << n) - 1), p));
}
#define TUSK_MASKED_FLOATS
#endif
#elif defined(__AVX2__)
inline __m256i lanes_below(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline v8d load_tail(const float *p, int n) {
    return __builtin_convertvector((v8f)_mm256_maskload_ps(p, lanes_below(n)), v8d);
}
inline v8d load_tail(const double *p, int n) {
    v8d v{};
    std::memcpy(&v, p, n * sizeof *p);
    return v;
}
#define TUSK_MASKED_FLOATS
#else
inline v8d load_tail(const double *p, int n) {
    v8d v{};
    std::memcpy(&v, p, n * sizeof *p);
    return v;
}
#endif
#if !defined(TUSK_MASKED_FLOATS)
inline v8d load_tail(const float *p, int n) {
    v8f v{};
    std::memcpy(&v, p, n * sizeof *p);
    return __builtin_convertvector(v, v8d);
}
#endif

inline void store_tail(double *p, v8d v, int n) {
    std::memcpy(p, &v, n * sizeof *p);
}

inline double sum(v8d v) {
    return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
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

// exp(x) for x <= 0, to about one unit in the last place; below -708 it is 0.
// x = k ln 2 + r, |r| <= ln 2 / 2, with ln 2 in two parts (Cody and Waite), then Taylor's
// polynomial of degree 13.
inline v8d exp_negative(v8d x) {
    const v8d shifter = splat(0x1.8p52);
    v8d k = x * 1.4426950408889634074 + shifter;
    v8i exponent = (v8i)k;
    k -= shifter;
    v8d r = x - k * 6.93147180369123816490e-01;
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
    v8d p = splat(inverse_factorial[0]);
    for (int i = 1; i < 14; i++)
        p = p * r + inverse_factorial[i];
    v8d scale = (v8d)((exponent + 1023) << 52);
    return select(x < -708.0, splat(0.0), p * scale);
}

// log(1 + t) for 0 <= t <= 1, by 2 atanh(s) around 1 or around 3/2, where |s| <= 1/5.
inline v8d log1p_unit(v8d t) {
    v8i high = t > 0.5;
    v8d u = select(high, (t - 0.5) * (2.0 / 3.0), t);
    v8d s = u / (u + 2.0);
    v8d q = s * s;
    v8d p = splat(1.0 / 21);
    for (int k = 19; k >= 1; k -= 2)
        p = p * q + 1.0 / k;
    return 2.0 * s * p + select(high, splat(0.40546510810816438198), splat(0.0));
}

} // namespace tusk
