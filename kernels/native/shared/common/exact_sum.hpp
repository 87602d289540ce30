// Sums of doubles that are the same in any order.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace tusk {

// A sum as an integer of all bits that doubles may have, in words of 32 bits of which each has
// room for carries (Kulisch, Miranker, The arithmetic of the digital computer: a new approach,
// SIAM Review 28, 1986).
class ExactSum {
public:
    void add(double x) {
        uint64_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        auto exponent = (int32_t)(bits >> 52 & 0x7ff);
        if (exponent == 0x7ff) {
            wild_ += x; // infinity or NaN, and so is the sum
            return;
        }
        uint64_t digits = bits & ((UINT64_C(1) << 52) - 1);
        digits |= exponent ? UINT64_C(1) << 52 : 0;
        int32_t place = exponent ? exponent - 1 : 0;
        int64_t *word = words_ + place / 32;
        int32_t shift = place % 32;
        uint64_t low = digits << shift, high = shift ? digits >> (64 - shift) : 0;
        int64_t sign = bits >> 63 ? -1 : 1;
        word[0] += sign * (int64_t)(low & UINT32_MAX);
        word[1] += sign * (int64_t)(low >> 32);
        word[2] += sign * (int64_t)high;
        if (++added_ == MOST)
            carry();
    }

    void add(ExactSum other) {
        carry();
        other.carry();
        for (int32_t i = 0; i < WORDS; i++)
            words_[i] += other.words_[i];
        wild_ += other.wild_;
        carry();
    }

    // Equal sums have equal digits, which `of_digits` reads; it returns false for invalid ones.
    static constexpr int32_t WORDS = 70; // of 2,046 places and 53 digits, and carries of 2^32 rows
    struct Digits {
        int64_t words[WORDS];
        double wild;
    };
    Digits digits() const {
        ExactSum own = *this;
        own.carry();
        Digits out;
        std::memcpy(out.words, own.words_, sizeof words_);
        out.wild = wild_;
        return out;
    }
    bool of_digits(const Digits &in) {
        std::memcpy(words_, in.words, sizeof words_);
        wild_ = in.wild;
        added_ = 0;
        constexpr int64_t END = INT64_C(1) << 32;
        bool normal = words_[WORDS - 1] >= -END && words_[WORDS - 1] < END;
        for (int32_t i = 0; i + 1 < WORDS; i++)
            normal &= words_[i] >= 0 && words_[i] < END;
        return normal;
    }

    // The sum, rounded in a way that depends on it alone.
    double value() const {
        if (wild_ != 0)
            return wild_;
        ExactSum own = *this;
        own.carry();
        bool negative = own.words_[WORDS - 1] < 0;
        if (negative) {
            for (int64_t &word : own.words_)
                word = -word;
            own.carry();
        }
        double sum = 0;
        for (int32_t i = 0; i < WORDS; i++)
            sum += std::ldexp((double)own.words_[i], 32 * i - 1074);
        return negative ? -sum : sum;
    }

private:
    static constexpr int64_t MOST = INT64_C(1) << 30; // that a word has room for

    // Leaves less than 2^32 in each word except the last, which has the sign.
    void carry() {
        for (int32_t i = 0; i + 1 < WORDS; i++) {
            int64_t over = words_[i] >> 32;
            words_[i + 1] += over;
            words_[i] -= over * (INT64_C(1) << 32);
        }
        added_ = 0;
    }

    int64_t words_[WORDS] = {};
    int64_t added_ = 0;
    double wild_ = 0;
};

} // namespace tusk
