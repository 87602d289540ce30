// Vectors of floats as wide as a register, for drawing topics.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace tusk::topics {

#if defined(__AVX512F__)
constexpr int WIDE = 16;
#elif defined(__AVX2__)
constexpr int WIDE = 8;
#else
constexpr int WIDE = 4;
#endif
using Floats = float __attribute__((vector_size(4 * WIDE)));
using Ints = int32_t __attribute__((vector_size(4 * WIDE)));

template <class V, class T> inline V loaded(const T *at) {
    static_assert(sizeof(T) == 4);
    V v;
    std::memcpy(&v, at, sizeof v);
    return v;
}
inline void put(float *at, Floats v) {
    std::memcpy(at, &v, sizeof v);
}
inline Floats floats_of(Ints v) {
    return __builtin_convertvector(v, Floats);
}
inline Ints lane_numbers() {
    Ints v;
    for (int i = 0; i < WIDE; i++)
        v[i] = i;
    return v;
}
inline Floats only(int lane, float x) {
    return (lane_numbers() == lane) ? Floats{} + x : Floats{};
}

#if defined(__AVX512F__)
// Lane i of the result is the sum of lanes 0 .. i.
inline Floats prefix_sums(Floats of) {
    __m512i zero = _mm512_setzero_si512();
    auto shifted = [&](Floats v, auto by) {
        return (Floats)_mm512_maskz_alignr_epi32(0xffff, (__m512i)v, zero,
                                                 16 - decltype(by)::value);
    };
    Floats v = of;
    v += shifted(v, std::integral_constant<int, 1>{});
    v += shifted(v, std::integral_constant<int, 2>{});
    v += shifted(v, std::integral_constant<int, 4>{});
    v += shifted(v, std::integral_constant<int, 8>{});
    return v;
}
inline int count_up_to(Floats v, float x) {
    return __builtin_popcount(_mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(x), _CMP_LE_OQ));
}
inline Floats gathered(const float *from, Ints at) {
    return (Floats)_mm512_i32gather_ps((__m512i)at, from, 4);
}
#else
inline Floats prefix_sums(Floats v) {
    for (int i = 1; i < WIDE; i++)
        v[i] += v[i - 1];
    return v;
}
inline int count_up_to(Floats v, float x) {
    int n = 0;
    for (int i = 0; i < WIDE; i++)
        n += v[i] <= x;
    return n;
}
inline Floats gathered(const float *from, Ints at) {
    Floats v;
    for (int i = 0; i < WIDE; i++)
        v[i] = from[at[i]];
    return v;
}
#endif

} // namespace tusk::topics
