#include "sample.hpp"

namespace tusk {
namespace {

// The bodies are written once and compiled once per instruction set: the compiler turns the
// builtin into popcnt or vpopcntq.
[[gnu::always_inline]] inline int64_t dense_body(const Word *a, const Word *b, int64_t n) {
    int64_t count = 0;
    for (int64_t k = 0; k < n; ++k) {
        count += __builtin_popcountll(a[k] & b[k]);
    }
    return count;
}

[[gnu::always_inline]] inline int64_t sparse_body(const Word *words, const int32_t *index,
                                                  int64_t n, const Word *b) {
    int64_t count = 0;
    for (int64_t k = 0; k < n; ++k) {
        count += __builtin_popcountll(words[k] & b[index[k]]);
    }
    return count;
}

#define OVERLAP_KERNELS(NAME, TARGET)                                                \
    TARGET int64_t dense_##NAME(const Word *a, const Word *b, int64_t n) {           \
        return dense_body(a, b, n);                                                  \
    }                                                                                \
    TARGET int64_t sparse_##NAME(const Word *words, const int32_t *index, int64_t n, \
                                 const Word *b) {                                    \
        return sparse_body(words, index, n, b);                                      \
    }                                                                                \
    constexpr OverlapKernels NAME{dense_##NAME, sparse_##NAME};

OVERLAP_KERNELS(portable, )
#if defined(__x86_64__)
OVERLAP_KERNELS(popcnt, [[gnu::target("popcnt")]])
OVERLAP_KERNELS(avx512, [[gnu::target("avx512f,avx512vl,avx512vpopcntdq,popcnt")]])
#endif

OverlapKernels choose() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512vpopcntdq") && __builtin_cpu_supports("avx512vl")) {
        return avx512;
    }
    if (__builtin_cpu_supports("popcnt")) {
        return popcnt;
    }
#endif
    return portable;
}

} // namespace

const OverlapKernels &overlap_kernels() {
    static const OverlapKernels chosen = choose();
    return chosen;
}

} // namespace tusk
