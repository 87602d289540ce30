// Vectors of floats, as long as a register, and the functions of them that nets need.
#pragma once

#include <cstdint>
#include <cstring>

namespace tusk {

#if defined(__AVX512F__)
constexpr int WIDE = 16;
#else
constexpr int WIDE = 8;
#endif
constexpr int PAD = 16; // widths are padded to this, whatever the registers

using vf = float __attribute__((vector_size(WIDE * sizeof(float))));
using vi = int32_t __attribute__((vector_size(WIDE * sizeof(int32_t))));
using vu = uint32_t __attribute__((vector_size(WIDE * sizeof(uint32_t))));

inline int64_t padded(int64_t n) {
    return (n + PAD - 1) / PAD * PAD;
}

inline vf load(const float *p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(float *p, vf v) {
    std::memcpy(p, &v, sizeof v);
}

inline vf select(vi mask, vf a, vf b) {
    return mask ? a : b;
}

inline vf vabs(vf a) {
    return (vf)((vi)a & INT32_MAX);
}

// The halves added, then their halves, and so on.
inline float sum(vf v) {
#if defined(__AVX512F__)
    v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
#else
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
#endif
    return v[0] + v[1];
}

inline void copy(const float *from, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i += WIDE)
        store(to + i, load(from + i));
}

// exp(x) for x <= 0, to about one unit in the last place; 0 below -87. x = k ln 2 + r with |r| <=
// ln 2 / 2, ln 2 in two parts (Cody and Waite), exp(r) by its Taylor polynomial of degree 7.
inline vf exp_negative(vf x) {
    const vf shifter = vf{} + 0x1.8p23f;
    vf k = x * 1.44269504f + shifter;
    vi exponent = (vi)k;
    k -= shifter;
    vf r = x - k * 0.693359375f;
    r += k * 2.12194440e-4f;
    vf p = r * (1.0f / 5040) + (1.0f / 720);
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return select(x < -87.0f, vf{}, p * (vf)((exponent + 127) << 23));
}

// log(1 + t) for 0 <= t <= 1: the series of 2 atanh(s) around 1 or around 3/2, where |s| <= 1/5.
inline vf log1p_unit(vf t) {
    vi high = t > 0.5f;
    vf u = select(high, (t - 0.5f) * (2.0f / 3.0f), t);
    vf s = u / (u + 2.0f), q = s * s;
    vf p = q * (1.0f / 9) + (1.0f / 7);
    p = p * q + 1.0f / 5;
    p = p * q + 1.0f / 3;
    p = p * q + 1.0f;
    return 2.0f * s * p + select(high, vf{} + 0.405465108f, vf{});
}

} // namespace tusk
