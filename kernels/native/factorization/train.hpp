// Training of a block of ratings, and the order of the blocks.
//
// Threads. The ratings form grid x grid blocks. A stratum of an epoch pairs each range of users
// with one range of items, so its blocks share no vector (Gemulla, Nijkamp, Haas, Sismanis,
// Large-scale matrix factorization with distributed stochastic gradient descent, KDD 2011). There
// is no barrier after a stratum: a block runs as soon as the earlier blocks of its users and of
// its items are done. So each vector sees its ratings in the same order on any number of threads.
#pragma once

#include <atomic>
#include <cmath>
#include <utility>

#include "factorization.hpp"

namespace tusk {

// Sixteen floats, one cache line. If registers are shorter, a line is two halves, because
// compilers keep vectors longer than a register in memory.

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

// The constants of one rating's update, in units of the deviation.
struct Rule {
    float step;
    v16f keep_first, keep; // 1 - step l2, for the first line and for the others
};

inline Rule rule_for(const Factorization &f, double step) {
    const v16f keep = splat16((float)(1 - step * f.l2_factors / f.deviation));
    const v16f first = splat16((float)(1 - step * f.l2));
    return {(float)step, f.biases ? with_first(first, keep) : keep, keep};
}

constexpr int AHEAD = 6; // ratings whose vectors are prefetched

// The addresses of the vectors: contiguous, or through pointers.
struct SideBySide {
    float *first; // vector of index 0
    float *at(int32_t place, int64_t stride) const { return first + place * stride; }
};
struct Scattered {
    float *const *vectors;
    int32_t first; // first index
    float *at(int32_t place, int64_t) const { return vectors[place - first]; }
};

// The factor of a vector in the step of a weighted rating: 1 - weight step l2.
template <bool Weighted> v16f kept(const v16f &keep, float weight) {
    return Weighted ? splat16(weight) * keep + splat16(1 - weight) : keep;
}

// Takes one gradient step per rating and returns the sum of squared errors. N: lines of a vector;
// 0: any number. weights: like ratings; not read unless Weighted.
template <int N, bool Biases, class Vectors, bool Weighted = false>
double train(const Rating *ratings, int64_t n, Vectors users, Vectors items, int lines,
             const Rule &rule, const float *weights) {
    const int64_t stride = (int64_t)(N ? N : lines) * LINE;
    const int count = N ? N : lines;
    double total = 0;
    for (int64_t k = 0; k < n; k++) {
        const Rating r = ratings[k];
        const Rating &next = ratings[std::min(k + AHEAD, n - 1)];
        float *p = users.at(r.user, stride), *q = items.at(r.item, stride);
        const float *next_p = users.at(next.user, stride), *next_q = items.at(next.item, stride);
        v16f a = load16(p), b = load16(q);
        v16f dot = Biases ? with_first(a + b, a * b) : a * b;
        for (int l = 1; l < count; l++)
            dot += load16(p + l * LINE) * load16(q + l * LINE);
        float e = r.value - sum16(dot), weight = Weighted ? weights[k] : 1.0f;
        total += (double)(weight * e * e);
        v16f g = splat16(rule.step * weight * e);
        const v16f keep_first = kept<Weighted>(rule.keep_first, weight);
        const v16f keep = kept<Weighted>(rule.keep, weight);
        store16(p, keep_first * a + g * (Biases ? with_first(splat16(1), b) : b));
        store16(q, keep_first * b + g * (Biases ? with_first(splat16(1), a) : a));
        __builtin_prefetch(next_p, 1);
        __builtin_prefetch(next_q, 1);
        for (int l = 1; l < count; l++) {
            v16f pl = load16(p + l * LINE), ql = load16(q + l * LINE);
            store16(p + l * LINE, keep * pl + g * ql);
            store16(q + l * LINE, keep * ql + g * pl);
            __builtin_prefetch(next_p + l * LINE, 1);
            __builtin_prefetch(next_q + l * LINE, 1);
        }
    }
    return total;
}

template <class Vectors>
using Train = double (*)(const Rating *, int64_t, Vectors, Vectors, int, const Rule &,
                         const float *);

template <bool Biases, class Vectors, int... N>
Train<Vectors> train_for(int lines, std::integer_sequence<int, N...>) {
    static constexpr Train<Vectors> table[] = {train<N, Biases, Vectors>...};
    return table[lines < (int)sizeof...(N) ? lines : 0];
}
template <class Vectors> Train<Vectors> train_for(const Factorization &f) {
    constexpr std::make_integer_sequence<int, 9> most{};
    if (f.weights.data())
        return f.biases ? train<0, true, Vectors, true> : train<0, false, Vectors, true>;
    return f.biases ? train_for<true, Vectors>(f.lines(), most)
                    : train_for<false, Vectors>(f.lines(), most);
}

template <bool Biases> float predicted(const float *p, const float *q, int lines) {
    v16f a = load16(p), b = load16(q);
    v16f dot = Biases ? with_first(a + b, a * b) : a * b;
    for (int l = 1; l < lines; l++)
        dot += load16(p + l * LINE) * load16(q + l * LINE);
    return sum16(dot);
}

inline double total_of(const std::vector<double> &sums) {
    double total = 0;
    for (double sum : sums)
        total += sum;
    return total;
}

// The numbers 0 .. n - 1 in a seeded order.
inline std::vector<int32_t> permutation(int32_t n, uint64_t seed) {
    std::vector<int32_t> order(n);
    for (int32_t k = 0; k < n; k++) {
        int32_t to = (int32_t)(scrambled(seed + (uint64_t)k) % (uint64_t)(k + 1));
        order[k] = order[to];
        order[to] = k;
    }
    return order;
}

// The order of the blocks. Block number t belongs to stratum t / grid, which pairs a permutation
// of the ranges of users with a shifted permutation of the ranges of items. Threads draw blocks in
// this order, so the blocks that a block waits for have already started.
struct Turn {
    int32_t users, items;
    int64_t block;
};

class Turns {
public:
    Turns(const Factorization &f, int64_t epoch)
        : grid_(f.grid), users_done_(f.grid), items_done_(f.grid) {
        uint64_t seed = scrambled(f.seed) + 3 * (uint64_t)epoch;
        users_ = permutation(grid_, scrambled(seed));
        items_ = permutation(grid_, scrambled(seed + 1));
        shift_ = permutation(grid_, scrambled(seed + 2));
    }

    // Draws the next block. If `wait`, waits until the earlier blocks of its users and items end.
    // Returns false if there are no more blocks.
    bool next(Turn &turn, bool wait) {
        int64_t t = drawn_.fetch_add(1, std::memory_order_relaxed);
        if (t >= (int64_t)grid_ * grid_)
            return false;
        int32_t stratum = (int32_t)(t / grid_), k = (int32_t)(t % grid_);
        turn.users = users_[k];
        turn.items = items_[(k + shift_[stratum]) % grid_];
        turn.block = (int64_t)turn.users * grid_ + turn.items;
        if (wait) {
            await(users_done_[turn.users], stratum);
            await(items_done_[turn.items], stratum);
        }
        return true;
    }
    void finish(const Turn &turn) {
        for (Count *count : {&users_done_[turn.users], &items_done_[turn.items]}) {
            count->fetch_add(1, std::memory_order_release);
            count->notify_all();
        }
    }

private:
    using Count = std::atomic<int32_t>;
    static void await(Count &done, int32_t stratum) {
        for (int32_t seen; (seen = done.load(std::memory_order_acquire)) < stratum;)
            done.wait(seen, std::memory_order_acquire);
    }

    int32_t grid_;
    std::vector<int32_t> users_, items_, shift_;
    std::vector<Count> users_done_, items_done_; // finished strata, by range
    std::atomic<int64_t> drawn_{0};
};

// Scale of the initial p.q. It is small, so that training fits the biases first.
constexpr double START = 0.03;

// Biases start at 0. Factors start uniform in +-sqrt(START / rank), drawn by id.
inline uint64_t state_of(uint64_t seed, int64_t id) {
    return scrambled(seed ^ (uint64_t)id);
}
inline float start_of(const Factorization &f, uint64_t state, int32_t k) {
    if (k < f.biases)
        return 0;
    float unit = (float)(scrambled(state + (uint64_t)(k - f.biases)) >> 40) * 0x1p-23f - 1;
    return (float)std::sqrt(START / f.rank) * unit;
}

// The penalty of a vector in the caller's units. `deviation`: the ratings' standard deviation.
inline double penalty_of(const Factorization &f, const float *v, double deviation) {
    v16f sum{};
    for (int l = 0; l < f.lines(); l++)
        sum += load16(v + l * LINE) * load16(v + l * LINE);
    double bias = f.biases ? f.l2 * deviation : f.l2_factors, first = (double)v[0] * v[0];
    return 0.5 * deviation * (f.l2_factors * (sum16(sum) - first) + bias * first);
}

inline float predicted(const Factorization &f, const float *p, const float *q) {
    return f.biases ? predicted<true>(p, q, f.lines()) : predicted<false>(p, q, f.lines());
}

// The weighted sum over ratings of the vectors' penalties, in the caller's units.
inline double penalty_of(const Factorization &f, const Side &side) {
    double total = 0;
    for (int64_t place = 0; place < side.seen(); place++)
        total += penalty_of(f, side.vectors.data() + place * f.stride, f.deviation) *
                 side.weight(place);
    return total;
}

inline double penalty_of(const Factorization &f) {
    return f.l2 > 0 ? penalty_of(f, f.users) + penalty_of(f, f.items) : 0;
}

} // namespace tusk
