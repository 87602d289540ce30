// Passes over the rows of a group: an epoch of steps, or the sum of the losses.
#pragma once

#include <cmath>
#include <cstring>
#include <utility>

#include "machine.hpp"

// The margin of a row, and a step along the gradient of its loss. The sum over pairs and its
// gradient take time linear in the row's entries (Rendle 2010, lemma 3.1 and equation 4).

namespace tusk::fm {

// One row: its features, 0 to n - 1 without ids, and their values, all 1 without values.
struct Row {
    const int32_t *id;
    const float *x;
    int64_t n;
    int64_t feature(int64_t e) const { return id ? id[e] : e; }
};

// Accessor for the rows of a piece.
class RowsOf {
public:
    RowsOf(const Rows &rows, const Piece &p, bool ones)
        : sparse_(rows.sparse()), ones_(ones), d_(rows.group.dim), s_(p.segment) {}
    Row at(uint32_t row) const {
        if (!sparse_)
            return {nullptr, (const float *)tusk_dense_values(s_) + row * d_, d_};
        const uint32_t *start = tusk_row_starts(s_) + row;
        const auto *x = (const float *)tusk_sparse_values(s_);
        return {tusk_indices(s_) + start[0], ones_ ? nullptr : x + start[0], start[1] - start[0]};
    }

private:
    bool sparse_, ones_;
    int64_t d_;
    const tusk_segment *s_;
};

struct Rule {
    float rate, l2, l2_factors, per_rank; // per_rank: 1 / rank
    bool adagrad;
};

inline v8f load8(const float *p) {
    v8f v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
inline void store8(float *p, v8f v) {
    std::memcpy(p, &v, sizeof v);
}
inline float sum8(v8f a) {
    using v4f = float __attribute__((vector_size(16)));
    v4f b = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
    b += __builtin_shufflevector(b, b, 2, 3, 0, 1);
    return b[0] + b[1];
}

constexpr int MOST_WIDES = 32; // ranks up to 256

// The margin of a row. sums: sum_i v_i x_i, W vectors of eight (W = 0: m.wides() of them).
template <int W, bool Ones> float margin(const Machine &m, const Row &row, float bias, v8f *sums) {
    const int wides = W ? W : m.wides();
    v8f squares{};
    float linear = bias;
    for (int k = 0; k < wides; k++)
        sums[k] = v8f{};
    for (int64_t e = 0; e < row.n; e++) {
        const float *block = m.block(row.feature(e));
        const float x = Ones ? 1.0f : row.x[e];
        linear += x * block[wides * WIDE + LINEAR];
        for (int k = 0; k < wides; k++) {
            v8f one = load8(block + k * WIDE);
            if (!Ones)
                one *= x;
            sums[k] += one;
            squares += one * one;
        }
    }
    v8f pairs = -squares;
    for (int k = 0; k < wides; k++)
        pairs += sums[k] * sums[k];
    return linear + 0.5f * sum8(pairs);
}

// Learning rate of a number, from its gradient and its sum of squared gradients.
inline float rate_of(const Rule &rule, float *squares, float square) {
    if (!rule.adagrad)
        return rule.rate;
    *squares += square;
    return rule.rate / std::sqrt(*squares);
}

// Steps along the gradient of one row's loss and penalties. slope: the derivative of the loss by
// the margin, times the row's weight.
template <int W, bool Ones>
void step(const Machine &m, const Row &row, const v8f *sums, float slope, const Rule &rule) {
    const int wides = W ? W : m.wides();
    for (int64_t e = 0; e < row.n; e++) {
        const float x = Ones ? 1.0f : row.x[e];
        if (!Ones && x == 0)
            continue; // it is not penalised either
        float *block = m.block(row.feature(e)), *behind = block + wides * WIDE;
        const float by = slope * x;
        float g = by + rule.l2 * behind[LINEAR];
        behind[LINEAR] -= rate_of(rule, behind + LINEAR_SQUARES, g * g) * g;
        v8f squares{}, gradient[W ? W : MOST_WIDES];
        const float keep = rule.l2_factors - by * x;
        for (int k = 0; k < wides; k++) {
            gradient[k] = by * sums[k] + keep * load8(block + k * WIDE);
            squares += gradient[k] * gradient[k];
        }
        const float rate = rate_of(rule, behind + FACTOR_SQUARES,
                                   rule.adagrad ? sum8(squares) * rule.per_rank : 0);
        for (int k = 0; k < wides; k++)
            store8(block + k * WIDE, load8(block + k * WIDE) - rate * gradient[k]);
    }
}

// Prefetches the blocks of a row's features.
inline void prefetch(const Machine &m, const Row &row) {
    for (int64_t e = 0; row.id && e < row.n; e++)
        for (int64_t at = 0; at < m.stride(); at += LINE)
            __builtin_prefetch(m.block(row.id[e]) + at, 1);
}

// log(1 + exp(m)) - y m and its derivative by m, for a label 0 or 1.
inline float logistic(float m, float y, float *slope) {
    float t = std::exp(-std::fabs(m)), p = (m < 0 ? t : 1) / (1 + t);
    *slope = p - y;
    return std::log1p(t) + (m > 0 ? m : 0) - y * m;
}
inline float squared(float m, float y, float *slope) {
    *slope = m - y;
    return 0.5f * (m - y) * (m - y);
}

} // namespace tusk::fm

namespace tusk::fm {

// A group's rows and its machine; threads: number that share its weights in an epoch.
struct Training {
    const tk_pass *pass;
    const tk_fm *fm;
    Rows rows;
    Units *units;
    Machine *machine;
    int threads;
    double rate; // learning rate of the epoch
    int ending() const { return tusk::ending(pass->cancel_mark, pass->deadline); }
};

// Makes a step for each row in the order of an epoch, from 0 on, and sums their weighted losses
// before the steps, in the units of the training. Returns a tk_code; TK_OUT_OF_TIME if some rows
// were left.
int run_epoch(const Training &t, int64_t number, double *loss);
// The sum of the losses at the current weights, optionally with their penalties. Bits do not
// depend on threads.
int sum_losses(const Training &t, const Rows &rows, bool penalties, int threads, double *loss);

} // namespace tusk::fm
