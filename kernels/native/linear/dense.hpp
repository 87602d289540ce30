// The two halves of every dense pass, for blocks of rows that stay in cache: margins from weights,
// and the gradient from derivatives. All algorithms use them. Their code is in dense.cpp, so it is
// compiled only once.
#pragma once

#include <algorithm>
#include <type_traits>

#include "../shared/rows.hpp"
#include "losses.hpp"

namespace tusk {

constexpr int TILE = 8 * LANES; // features whose weights stay in registers

// Weights padded with zeros to a multiple of eight, so that tails need no special case.
inline int64_t padded(int64_t d) {
    return (d + LANES - 1) / LANES * LANES;
}

// The weights (n_groups, d + 1) of a pass, with each group's d weights padded and followed by the
// intercept. If weights are NULL, all are 0. Sparse passes do not need them.
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
    int64_t width() const { return behind_ + LANES; } // keeps the alignment of each group

    std::vector<double> all_;
    int64_t behind_ = 0;
};

// Calls work.operator()<NV>(first feature, values in the last vector) for each tile of d features.
// NV <= 8 is the number of vectors in the tile.
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

// Whether all margins equal the intercept, so that no row needs to be read for them.
inline bool all_zero(const double *w, int64_t d) {
    return std::all_of(w, w + d, [](double one) { return one == 0; });
}

// m[i] = x_i . w + b for n rows; w has padded(d) values, those from d on are 0.
template <class Rows>
void margins(const Rows &x, int n, int64_t d, const double *w, double b, double *m);

// g += sum_i r[i] x_i; g has padded(d) values, those from d on keep their value.
template <class Rows>
void add_gradient(const Rows &x, int n, int64_t d, const double *r, double *g);

inline double sum_block(const double *r) {
    v8d s = splat(0.0);
    for (int i = 0; i < BLOCK_ROWS; i += LANES)
        s += load(r + i);
    return sum(s);
}

// The loss of a group of a pass. The kind is looked up once per block of rows, so that the code
// around a block is compiled once for all losses.
struct Loss {
    LossKind kind;
    bool by_scores; // squared derivatives instead of curvatures
    double smoothing, parameter;
    explicit Loss(const tk_pass *pass, int64_t g = 0)
        : kind((LossKind)pass->loss), by_scores(pass->by_scores), smoothing(pass->smoothing),
          parameter(0) {
        if (!pass->parameter)
            return;
        parameter = pass->parameter[2 * g];
        smoothing *= pass->parameter[2 * g + 1];
    }
};

// Calls body with the object that computes a loss of the stochastic kernels.
template <class Body> inline auto with_step_loss(const Loss &loss, Body &&body) {
    switch (loss.kind) {
    case LossKind::squared:
        return body(Squared(0));
    case LossKind::logistic:
        return body(Logistic(0));
    default:
        return body(Hinge(loss.smoothing));
    }
}

// The same for all losses. Only these functions select one by its number.
template <class Body> inline auto with_loss(const Loss &loss, Body &&body) {
    switch (loss.kind) {
    case LossKind::poisson:
        return body(Poisson());
    case LossKind::gamma:
        return body(Gamma());
    case LossKind::negative_binomial:
        return body(NegativeBinomial(loss.parameter));
    case LossKind::huber:
        return body(Huber(loss.parameter));
    case LossKind::pinball:
        return body(Pinball(loss.parameter, loss.smoothing));
    case LossKind::squared_hinge:
        return body(SquaredHinge());
    case LossKind::expected_gamma:
        return body(ExpectedGamma());
    case LossKind::expected_negative_binomial:
        return body(ExpectedNegativeBinomial(loss.parameter));
    case LossKind::tweedie:
        return body(Tweedie(loss.parameter));
    case LossKind::expected_tweedie:
        return body(ExpectedTweedie(loss.parameter));
    default:
        return with_step_loss(loss, body);
    }
}

// How a group's labels map to classes and to their weights.
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

// Returns the sum of the losses of n <= BLOCK_ROWS margins. d[i] gets the derivatives and h[i],
// unless NULL, the curvatures, or the squared derivatives if loss.by_scores is set. Items n ..
// BLOCK_ROWS - 1 of d and h are set to 0.
double evaluate(const Loss &loss, const Labels &labels, const double *m, const double *y, int n,
                double *d, double *h);

// The same for rows with weights and offsets; the latter are added to m.
double evaluate(const Loss &loss, const Labels &labels, double *m, const Targets &t, int n,
                double *d, double *h);

// The same without the losses.
void derivatives(const Loss &loss, const Labels &labels, const double *m, const double *y, int n,
                 double *d, double *h);
void derivatives(const Loss &loss, const Labels &labels, double *m, const Targets &t, int n,
                 double *d, double *h);

// Adds the offsets of n rows to their margins.
inline void add_offsets(const Targets &t, int n, double *m) {
    for (int i = 0; t.offset && i < n; i++)
        m[i] += t.offset[i];
}

// One number in all lanes. Compilers drop the subtraction of 0. They may not drop an addition of
// 0, because it turns -0 into 0, and each step would have to wait for it.
inline vpart in_all_lanes(double x) {
    return x - vpart{};
}

// The derivative for one row, without the cost of the loss itself.
template <class Exact>
double derivative_of_row(const Exact &loss, const Labels &labels, double m, double y) {
    double weight = 1;
    if constexpr (Exact::classifies) {
        bool positive = y == labels.positive;
        y = positive ? 1 : -1;
        weight = positive ? labels.weight_positive : labels.weight_negative;
    }
    return weight * loss(in_all_lanes(m), in_all_lanes(y)).derivative[0];
}

// The loss of one row; *d gets its derivative.
inline double evaluate_row(const Loss &loss, const Labels &labels, double m, double y, double *d) {
    return with_step_loss(loss, [&](const auto &exact) {
        double weight = 1;
        if constexpr (std::decay_t<decltype(exact)>::classifies) {
            bool positive = y == labels.positive;
            y = positive ? 1 : -1;
            weight = positive ? labels.weight_positive : labels.weight_negative;
        }
        LossValues<vpart> v = exact(in_all_lanes(m), in_all_lanes(y));
        *d = weight * v.derivative[0];
        return weight * v.loss[0];
    });
}

// Calls body with a null pointer to the type of the pass's stored values.
template <class Body> auto with_storage(const tk_pass *pass, Body &&body) {
    if (tusk_value_size(pass->groups[0].kind) == sizeof(float))
        return body((const float *)nullptr);
    return body((const double *)nullptr);
}

// The first d numbers of z = ((x - shift) * scale, 1) of one row; the caller sets the 1.
inline void to_z(const auto &x, int i, int64_t d, const double *shift, const double *scale,
                 double *z) {
    const auto *row = x(i);
    for (int64_t j = 0; j < d; j++)
        z[j] = ((double)row[j] - shift[j]) * scale[j];
}

} // namespace tusk
