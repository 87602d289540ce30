// The two halves of every dense pass, for blocks of rows that stay in cache: margins from weights,
// and the gradient from derivatives. All algorithms are made of them.
#pragma once

#include <algorithm>

#include "losses.hpp"
#include "rows.hpp"

namespace tusk {

constexpr int TILE = 8 * LANES; // features whose weights stay in registers

// Weights padded with zeros to a multiple of eight, so that tails need no special case.
inline int64_t padded(int64_t d) {
    return (d + LANES - 1) / LANES * LANES;
}

// The weights (G, d + 1) of a pass's groups, each one's padded and the intercept behind that.
// NULL: zeros. In sparse passes nothing reads them.
class PaddedWeights {
public:
    PaddedWeights() = default;
    PaddedWeights(const tk_pass *pass, const double *weights) {
        const int64_t d = pass->groups[0].dim;
        behind_ = padded(d);
        all_.assign(pass->n_groups * width(), 0.0);
        for (int64_t g = 0; weights && g < pass->n_groups; g++) {
            std::copy_n(weights + g * (d + 1), d, all_.begin() + g * width());
            all_[g * width() + behind_] = weights[g * (d + 1) + d];
        }
    }
    const double *of(int64_t g) const {
        return all_.empty() ? nullptr : all_.data() + g * width();
    }
    double intercept(int64_t g) const { return of(g)[behind_]; }

private:
    int64_t width() const { return behind_ + LANES; } // each group's aligned as the first one's

    std::vector<double> all_;
    int64_t behind_ = 0;
};

// One row of up to NV vectors; the last holds `tail` values.
template <int NV, class T> inline v8d dot_row(const T *x, const v8d *w, int tail) {
    v8d sum = load_tail(x + (NV - 1) * LANES, tail) * w[NV - 1];
    for (int k = 0; k < NV - 1; k++)
        sum += load(x + k * LANES) * w[k];
    return sum;
}

// The next block of rows is fetched while this one is used: its even rows the first time, its odd
// rows the second time, so that memory never rests.
template <int NV, class T>
inline void prefetch_next(const Contiguous<T> &x, int i, int n, int64_t at) {
    const char *p = (const char *)(x(i + n) + at);
    for (size_t k = 0; k < NV * LANES * sizeof(T); k += 64)
        __builtin_prefetch(p + k);
}
template <int NV, class T> inline void prefetch_next(const Gathered<T> &, int, int, int64_t) {}

// m[i] += x_i . w over the tile of features from `at` on, for n rows.
template <int NV, class Rows>
void add_margins_tile(const Rows &x, int64_t at, int n, const double *w, int tail, double *m) {
    v8d weights[NV];
    for (int k = 0; k < NV; k++)
        weights[k] = load(w + k * LANES);
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        v8d each[LANES];
        for (int r = 0; r < LANES; r++) {
            if (r % 2 == 0)
                prefetch_next<NV>(x, i + r, n, at);
            each[r] = dot_row<NV>(x(i + r) + at, weights, tail);
        }
        store(m + i, load(m + i) + sum_each(each));
    }
    for (; i < n; i++)
        m[i] += sum(dot_row<NV>(x(i) + at, weights, tail));
}

template <int NV, class T> inline void add_row(v8d *sums, const T *row, double r, int tail) {
    for (int k = 0; k < NV - 1; k++)
        sums[k] += r * load(row + k * LANES);
    sums[NV - 1] += r * load_tail(row + (NV - 1) * LANES, tail);
}

// g += sum_i r[i] x_i over one tile of features. Narrow tiles keep several sums, to hide the
// latency of addition.
template <int NV, class Rows>
void add_gradient_tile(const Rows &x, int64_t at, int n, const double *r, int tail, double *g) {
    constexpr int WAYS = NV > 4 ? 1 : NV > 2 ? 2 : 4;
    v8d sums[WAYS][NV] = {};
    int i = 0;
    for (; i + WAYS <= n; i += WAYS)
        for (int way = 0; way < WAYS; way++) {
            if ((i + way) % 2)
                prefetch_next<NV>(x, i + way, n, at);
            add_row<NV>(sums[way], x(i + way) + at, r[i + way], tail);
        }
    for (; i < n; i++)
        add_row<NV>(sums[0], x(i) + at, r[i], tail);
    for (int way = 1; way < WAYS; way++)
        for (int k = 0; k < NV; k++)
            sums[0][k] += sums[way][k];
    for (int k = 0; k < NV; k++)
        store(g + k * LANES, load(g + k * LANES) + sums[0][k]);
}

// Runs work.operator()<NV>(first feature, values in the last vector) for each tile of d features.
template <class Work> inline void for_tiles(int64_t d, Work &&work) {
    for (int64_t at = 0; at < d; at += TILE) {
        int features = (int)std::min<int64_t>(TILE, d - at);
        int vectors = (features + LANES - 1) / LANES, tail = features - (vectors - 1) * LANES;
        switch (vectors) {
        case 1:
            work.template operator()<1>(at, tail);
            break;
        case 2:
            work.template operator()<2>(at, tail);
            break;
        case 3:
            work.template operator()<3>(at, tail);
            break;
        case 4:
            work.template operator()<4>(at, tail);
            break;
        case 5:
            work.template operator()<5>(at, tail);
            break;
        case 6:
            work.template operator()<6>(at, tail);
            break;
        case 7:
            work.template operator()<7>(at, tail);
            break;
        default:
            work.template operator()<8>(at, tail);
            break;
        }
    }
}

// m[i] = x_i . w + b for n rows; w has padded(d) values, zeros behind d.
template <class Rows>
void margins(const Rows &x, int n, int64_t d, const double *w, double b, double *m) {
    std::fill(m, m + n, b);
    for_tiles(
        d, [&]<int NV>(int64_t at, int tail) { add_margins_tile<NV>(x, at, n, w + at, tail, m); });
}

// g += sum_i r[i] x_i; g has room for padded(d) values, those behind d are left as they are.
template <class Rows>
void add_gradient(const Rows &x, int n, int64_t d, const double *r, double *g) {
    for_tiles(d, [&]<int NV>(int64_t at, int tail) {
        add_gradient_tile<NV>(x, at, n, r, tail, g + at);
    });
}

inline double sum_block(const double *r) {
    v8d s = splat(0.0);
    for (int i = 0; i < BLOCK_ROWS; i += LANES)
        s += load(r + i);
    return sum(s);
}

// What a group's labels mean to its loss.
struct Labels {
    double positive, weight_negative, weight_positive;
    bool weighted;

    Labels(const tk_pass *pass, int64_t g)
        : positive(pass->positive ? pass->positive[g] : 0), weight_negative(1), weight_positive(1),
          weighted(false) {
        if (!pass->class_weight)
            return;
        weight_negative = pass->class_weight[2 * g];
        weight_positive = pass->class_weight[2 * g + 1];
        weighted = weight_negative != 1 || weight_positive != 1;
    }
};

// Losses of up to BLOCK_ROWS margins. d[i] and h[i] get the derivatives (h only if not NULL);
// returns the sum of losses. Places n .. BLOCK_ROWS - 1 of d and h are set to 0.
template <class Loss>
double evaluate(const Loss &loss, const Labels &labels, const double *m, const double *y, int n,
                double *d, double *h) {
    v8d total = splat(0.0);
    for (int i = 0; i < n; i += LANES) {
        int left = std::min(n - i, LANES);
        v8d label = left == LANES ? load(y + i) : load_tail(y + i, left);
        v8d weight = splat(1.0);
        if constexpr (Loss::classifies) {
            v8i is_positive = label == labels.positive;
            label = select(is_positive, splat(1.0), splat(-1.0));
            if (labels.weighted)
                weight = select(is_positive, splat(labels.weight_positive),
                                splat(labels.weight_negative));
        }
        LossValues v = loss(left == LANES ? load(m + i) : load_tail(m + i, left), label);
        if (left < LANES) {
            static const v8i lane = {0, 1, 2, 3, 4, 5, 6, 7};
            weight = select(lane < (int64_t)left, weight, splat(0.0));
        }
        total += weight * v.loss;
        store(d + i, weight * v.derivative);
        if (h)
            store(h + i, weight * v.curvature);
    }
    for (int i = padded(n); i < BLOCK_ROWS; i++) {
        d[i] = 0;
        if (h)
            h[i] = 0;
    }
    return sum(total);
}

// The derivative for one row; what the loss itself takes is left out.
template <class Loss>
double derivative_of_row(const Loss &loss, const Labels &labels, double m, double y) {
    double weight = 1;
    if constexpr (Loss::classifies) {
        bool positive = y == labels.positive;
        y = positive ? 1 : -1;
        weight = positive ? labels.weight_positive : labels.weight_negative;
    }
    return weight * loss(splat(m), splat(y)).derivative[0];
}

// The same for one row.
template <class Loss>
double evaluate_row(const Loss &loss, const Labels &labels, double m, double y, double *d) {
    double weight = 1;
    if constexpr (Loss::classifies) {
        bool positive = y == labels.positive;
        y = positive ? 1 : -1;
        weight = positive ? labels.weight_positive : labels.weight_negative;
    }
    LossValues v = loss(splat(m), splat(y));
    *d = weight * v.derivative[0];
    return weight * v.loss[0];
}

// Calls body with the pass's loss: the one place where a loss is chosen by its number.
template <class Body> auto with_loss(const tk_pass *pass, Body &&body) {
    switch ((LossKind)pass->loss) {
    case LossKind::squared:
        return body(Squared(0));
    case LossKind::logistic:
        return body(Logistic(0));
    default:
        return body(Hinge(pass->smoothing));
    }
}

// Calls body with a null pointer of the pass's type of stored values.
template <class Body> auto with_storage(const tk_pass *pass, Body &&body) {
    if (tusk_value_size(pass->groups[0].kind) == sizeof(float))
        return body((const float *)nullptr);
    return body((const double *)nullptr);
}

} // namespace tusk
