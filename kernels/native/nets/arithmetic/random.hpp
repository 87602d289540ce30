// Random numbers: a counter's hash (Steele, Lea and Flood, OOPSLA 2014: SplitMix64), and lanes of
// Marsaglia's xorshift (Journal of Statistical Software 8, 2003) for dropout.
#pragma once

#include <cstdint>

#include "floats.hpp"

namespace tusk {

inline uint64_t hashed(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

// Derives the seed of item `number` from a seed.
inline uint64_t within(uint64_t seed, uint64_t number) {
    return hashed(hashed(seed) ^ (number + UINT64_C(0x632be59bd9b4e019)));
}

class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t bits() { return hashed(state_ += UINT64_C(0x9e3779b97f4a7c15)); }
    // A number from 0 to n - 1, n <= 2^32.
    uint32_t below(uint64_t n) { return (uint32_t)(((bits() >> 32) * n) >> 32); }
    // A number between -1 and 1.
    double symmetric() { return (double)(int64_t)(bits() >> 11) * 0x1p-52 - 1; }

private:
    uint64_t state_;
};

// Selects units of a hidden layer: each stays with probability 1 - dropout, scaled by its inverse.
class Dropout {
public:
    Dropout(double dropout, uint64_t seed)
        : least_((uint32_t)(dropout * 0x1p24)), scale_((float)(1 / (1 - dropout))) {
        for (int i = 0; i < WIDE; i++)
            state_[i] = (uint32_t)within(seed, i) | 1;
    }
    // The factors of the next units.
    vf next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 17;
        state_ ^= state_ << 5;
        return select((vi)((state_ >> 8) >= least_), vf{} + scale_, vf{});
    }

private:
    uint32_t least_;
    float scale_;
    vu state_;
};

} // namespace tusk
