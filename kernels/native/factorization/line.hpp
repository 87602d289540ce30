// Sixteen floats, one cache line. If registers are shorter, a line is two halves, because
// compilers keep vectors longer than a register in memory.
#pragma once

namespace tusk {

using v8f = float __attribute__((vector_size(32)));

#ifdef __AVX512F__
using v16f = float __attribute__((vector_size(64)));
inline v8f low_half(v16f v) {
    return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
}
inline v8f high_half(v16f v) {
    return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
}
inline v16f splat16(float x) {
    return x - v16f{};
}
// The first number of `a` followed by the other numbers of `b`.
inline v16f with_first(v16f a, v16f b) {
    using v16i = int __attribute__((vector_size(64)));
    return v16i{-1} ? a : b;
}
#else
struct v16f {
    v8f low, high;
};
inline v8f low_half(const v16f &v) {
    return v.low;
}
inline v8f high_half(const v16f &v) {
    return v.high;
}
inline v16f operator+(const v16f &a, const v16f &b) {
    return {a.low + b.low, a.high + b.high};
}
inline v16f operator*(const v16f &a, const v16f &b) {
    return {a.low * b.low, a.high * b.high};
}
inline v16f &operator+=(v16f &a, const v16f &b) {
    a.low += b.low;
    a.high += b.high;
    return a;
}
inline v16f splat16(float x) {
    return {x - v8f{}, x - v8f{}};
}
inline v16f with_first(const v16f &a, const v16f &b) {
    using v8i = int __attribute__((vector_size(32)));
    return {v8i{-1} ? a.low : b.low, b.high};
}
#endif

inline v16f load16(const float *p) {
    return *(const v16f *)p;
}
inline void store16(float *p, const v16f &v) {
    *(v16f *)p = v;
}
inline float sum16(const v16f &v) {
    using v4f = float __attribute__((vector_size(16)));
    v8f a = low_half(v) + high_half(v);
    v4f b = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
    b += __builtin_shufflevector(b, b, 2, 3, 0, 1);
    return b[0] + b[1];
}

} // namespace tusk
