// Loads eight stored values, floats or doubles, as a vector of doubles.
#pragma once

#include "simd.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tusk {

using v8f = float __attribute__((vector_size(32)));

// Compilers split the conversion of eight floats in two, although one instruction can do it.
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

// Loads the first n < 8 values and fills the rest with zeros. Reads nothing beyond the n values.
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

} // namespace tusk
