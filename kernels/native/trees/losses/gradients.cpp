// Takes losses with the formulas of the linear learners, `linear/losses.hpp`.
#include "gradients.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "../../linear/losses.hpp"
#include "../../shared/common/exact_sum.hpp"
#include "../../shared/pool.hpp"
#include "../../shared/segments.hpp"

namespace tusk {
namespace {

constexpr uint32_t STRETCH = 16384; // rows of one piece of work

// Neighbouring rows of one segment.
struct Piece {
    const double *y, *weight, *offset; // weight, offset: NULL if rows have none
    int64_t first;                     // number of the first row in the group
    uint32_t n;
};

std::vector<Piece> pieces_of(const tusk_group &group) {
    std::vector<Piece> out;
    int64_t first = 0;
    for (const tusk_segment *s : SegmentsOf(group))
        for (uint32_t at = 0; at < s->n_rows; at += STRETCH) {
            const double *weight = tusk_extra(s, tusk_shape_of(&group), TUSK_WEIGHTS);
            const double *offset = tusk_extra(s, tusk_shape_of(&group), TUSK_OFFSETS);
            uint32_t n = std::min(STRETCH, s->n_rows - at);
            out.push_back({tusk_labels(s) + at, weight ? weight + at : nullptr,
                           offset ? offset + at : nullptr, first, n});
            first += n;
        }
    return out;
}

// The unit of derivatives of at most `most`, n of which must fit into a sum of 62 bits. It is a
// power of two of `most`, so that labels in another unit have the same integers.
double derivative_unit(double most, double n) {
    int exponent = 0;
    std::frexp(n, &exponent);
    return std::ldexp(std::max(most, 1e-270), exponent - 62);
}

// The unit of curvatures of at most `most`, n of which must fit into a sum of as many bits.
double unit_for(double most, double n, int bits) {
    int exponent = 0;
    std::frexp(std::max(most * n, 1e-280), &exponent);
    return std::ldexp(1.0, exponent - bits);
}

// Reads margins, labels and weights of up to eight rows. Rows beyond the last one repeat it.
struct Eight {
    v8d m, y, w;
    int n;
};
Eight read(const Labels &labels, const Piece &p, const double *margins, uint32_t at) {
    Eight e;
    e.n = (int)std::min<uint32_t>(LANES, p.n - at);
    if (e.n == LANES) {
        e.m = load(margins + p.first + at), e.y = load(p.y + at) - labels.origin;
        e.w = p.weight ? load(p.weight + at) : splat(1);
        if (labels.objective == TK_LOGISTIC)
            e.y = select<v8d>(e.y == labels.positive, splat(1), splat(-1));
        if (labels.objective == TK_GINI)
            e.y = select<v8d>(e.y == labels.positive, splat(1), splat(0));
        return e;
    }
    for (int i = 0; i < LANES; i++) {
        uint32_t row = at + std::min(i, e.n - 1);
        double y = p.y[row];
        e.m[i] = margins[p.first + row];
        e.w[i] = p.weight ? p.weight[row] : 1;
        e.y[i] = labels.objective == TK_GINI       ? y == labels.positive
                 : labels.objective != TK_LOGISTIC ? y - labels.origin
                 : y == labels.positive            ? 1
                                                   : -1;
    }
    return e;
}

v8d without_repeats(v8d x, int n) {
    return select<v8d>(v8i{0, 1, 2, 3, 4, 5, 6, 7} < n, x, v8d{});
}

// Losses for boosting: those of `linear/losses.hpp` with positive curvatures. WIDEST, STEEPEST:
// the largest derivative and curvature; 0: it depends on the rows.
struct BoostedSquares : Squared {
    using Squared::Squared;
    static constexpr double WIDEST = 0, STEEPEST = 1;
};
struct BoostedOdds : Logistic {
    explicit BoostedOdds(double) : Logistic(0) {}
    static constexpr double WIDEST = 1, STEEPEST = 0.25;
};
struct BoostedCounts : Poisson {
    explicit BoostedCounts(double) {}
    static constexpr double WIDEST = 0, STEEPEST = 0;
    template <class V> LossValues<V> operator()(V m, V y) const {
        LossValues<V> v = Poisson::operator()(m, y);
        return {v.loss, v.derivative, v.curvature * 2.013752707470477}; // exp(0.7)
    }
};
struct BoostedAmounts : Gamma {
    explicit BoostedAmounts(double) {}
    static constexpr double WIDEST = 0, STEEPEST = 0;
};
struct BoostedTweedie : Tweedie {
    using Tweedie::Tweedie;
    static constexpr double WIDEST = 0, STEEPEST = 0;
};
struct BoostedQuantile : Pinball {
    explicit BoostedQuantile(double shape) : Pinball(shape, 0) {}
    static constexpr double WIDEST = 1, STEEPEST = 1;
    template <class V> LossValues<V> operator()(V m, V y) const {
        LossValues<V> v = Pinball::operator()(m, y);
        return {v.loss, v.derivative, V{} + 1.0};
    }
};
struct BoostedHuber : Huber {
    Huber slopes;
    BoostedHuber(double delta, double narrower)
        : Huber(delta), slopes(narrower > 0 ? narrower : delta) {}
    static constexpr double WIDEST = 0, STEEPEST = 1;
    template <class V> LossValues<V> operator()(V m, V y) const {
        return {Huber::operator()(m, y).loss, slopes(m, y).derivative, V{} + 1.0};
    }
};

template <class Loss>
Widest widest(const Loss &loss, const Labels &labels, const std::vector<Piece> &pieces,
              const double *margins, int threads) {
    Widest known{Loss::WIDEST, Loss::STEEPEST};
    if (known.derivative > 0 && known.curvature > 0)
        return known;
    std::vector<Widest> most(pieces.size());
    parallel_for((int64_t)pieces.size(), threads, [&](int64_t i) {
        v8d size{}, curve{};
        for (uint32_t at = 0; at < pieces[i].n; at += LANES) {
            Eight e = read(labels, pieces[i], margins, at);
            LossValues<v8d> v = loss(e.m, e.y);
            size = vmax(size, vabs(v.derivative));
            curve = vmax(curve, v.curvature);
        }
        most[i] = {0, 0};
        for (int k = 0; k < LANES; k++) {
            most[i].derivative = std::max(most[i].derivative, size[k]);
            most[i].curvature = std::max(most[i].curvature, curve[k]);
        }
    });
    Widest found{0, 0};
    for (const Widest &one : most) {
        found.derivative = std::max(found.derivative, one.derivative);
        found.curvature = std::max(found.curvature, one.curvature);
    }
    if (known.derivative > 0)
        found.derivative = known.derivative;
    if (known.curvature > 0)
        found.curvature = known.curvature;
    return found;
}

template <class Loss>
double take(const Loss &loss, const Labels &labels, const double *margins, int threads,
            Addend *addends, Units *units) {
    auto pieces = pieces_of(*labels.group);
    if (addends) {
        Widest most =
            labels.widest ? *labels.widest : widest(loss, labels, pieces, margins, threads);
        *units = units_for(most, labels.weights);
    }
    std::vector<double> losses(pieces.size());
    parallel_for((int64_t)pieces.size(), threads, [&](int64_t i) {
        const Piece &p = pieces[i];
        v8d total{};
        for (uint32_t at = 0; at < p.n; at += LANES) {
            Eight e = read(labels, p, margins, at);
            LossValues<v8d> v = loss(e.m, e.y);
            total += e.n == LANES ? e.w * v.loss : without_repeats(e.w * v.loss, e.n);
            if (!addends)
                continue;
            v8d w = p.weight ? scaled(labels.weights, e.w) : e.w;
            write_addends(w * v.derivative, w * v.curvature, *units, e.n, addends + p.first + at);
        }
        losses[i] = sum(total);
    });
    double total = 0;
    for (double part : losses)
        total += part;
    return total / labels.weights.total;
}

// Calls body with the loss of an objective.
template <class Body> auto with_loss(const Labels &labels, Body &&body) {
    switch (labels.objective) {
    case TK_LOGISTIC:
        return body(BoostedOdds(labels.shape));
    case TK_POISSON_TREES:
        return body(BoostedCounts(labels.shape));
    case TK_GAMMA_TREES:
        return body(BoostedAmounts(labels.shape));
    case TK_TWEEDIE_TREES:
        return body(BoostedTweedie(labels.shape));
    case TK_QUANTILE_TREES:
        return body(BoostedQuantile(labels.shape));
    case TK_HUBER_TREES:
        return body(BoostedHuber(labels.shape, labels.narrower));
    default:
        return body(BoostedSquares(labels.shape));
    }
}

} // namespace

Units units_for(const Widest &widest, const Weights &weights) {
    double total = scaled(weights, splat(weights.total))[0];
    double most = scaled(weights, splat(weights.most))[0];
    return Units{derivative_unit(widest.derivative, total * weights.room),
                 unit_for(widest.curvature, most * weights.room, CURVATURE_BITS - 1)};
}

v8d scaled(const Weights &weights, v8d weight) {
    v8d found = weight / weights.scale();
    return weights.unit > 0
               ? __builtin_convertvector(__builtin_convertvector(found + 0.5, v8i), v8d)
               : found;
}

Widest widest_of(const Labels &labels, const double *margins, int threads) {
    return with_loss(labels, [&](auto loss) {
        return widest(loss, labels, pieces_of(*labels.group), margins, threads);
    });
}

void write_addends(v8d derivative, v8d curvature, const Units &units, int n, Addend *out) {
    v8i first = __builtin_convertvector(derivative * (1 / units.gradient), v8i);
    v8i second = __builtin_convertvector(curvature * (1 / units.curvature) + 0.5, v8i);
    second |= INT64_C(1) << COUNT_SHIFT;
    v8i pairs[2] = {
        __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11),
        __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15),
    };
    std::memcpy(out, pairs, n * sizeof *out);
}

void copy_labels(const tusk_group &group, double *out) {
    for (const Piece &p : pieces_of(group))
        out = std::copy(p.y, p.y + p.n, out);
}

void add_offsets(const tusk_group &group, double *out) {
    for (const Piece &p : pieces_of(group))
        for (uint32_t i = 0; p.offset && i < p.n; i++)
            out[p.first + i] += p.offset[i];
}

void copy_weights(const tusk_group &group, double *out) {
    for (const Piece &p : pieces_of(group))
        out = p.weight ? std::copy(p.weight, p.weight + p.n, out) : std::fill_n(out, p.n, 1.0);
}

Weights weights_of(const tusk_group &group) {
    Weights found{(double)group.n_rows, 1};
    if (!(group.extras & TUSK_WEIGHTS))
        return found;
    found.total = found.most = 0;
    ExactSum total;
    CommonUnit unit;
    for (const Piece &p : pieces_of(group))
        for (uint32_t i = 0; i < p.n; i++) {
            total.add(p.weight[i]);
            unit.add(p.weight[i]);
            found.most = std::max(found.most, p.weight[i]);
        }
    found.total = total.value(), found.unit = unit.value();
    if (!std::isfinite(found.total))
        found.total = std::numeric_limits<double>::quiet_NaN(); // so the loss is NaN
    return found;
}

double quantile_of(double *numbers, int64_t n, double t) {
    double place = t * (double)(n - 1);
    auto below = std::min((int64_t)place, n - 1);
    std::nth_element(numbers, numbers + below, numbers + n);
    double low = numbers[below];
    if (below + 1 == n)
        return low;
    return between(low, *std::min_element(numbers + below + 1, numbers + n), n, t);
}

double between(double low, double high, int64_t n, double t) {
    double place = t * (double)(n - 1);
    auto below = std::min((int64_t)place, n - 1);
    return low + (high - low) * (place - (double)below);
}

constexpr double ROUNDED = 1e-12; // tolerance of sums of weights, whose rounding must not decide

double weighted_quantile_of(Weighted *numbers, int64_t n, double t) {
    std::sort(numbers, numbers + n, [](const Weighted &a, const Weighted &b) {
        return a.number != b.number ? a.number < b.number : a.weight < b.weight;
    });
    double total = 0, below = 0;
    for (int64_t i = 0; i < n; i++)
        total += numbers[i].weight;
    for (int64_t i = 0; i < n - 1; i++)
        if ((below += numbers[i].weight) >= (1 - ROUNDED) * t * total)
            return numbers[i].number;
    return numbers[n - 1].number;
}

namespace {

// The t-quantile of a number of each row; numbers are reordered.
double quantile_of_rows(const tusk_group &group, std::vector<double> &numbers, double t) {
    if (!(group.extras & TUSK_WEIGHTS))
        return quantile_of(numbers.data(), (int64_t)numbers.size(), t);
    std::vector<double> weight(numbers.size());
    copy_weights(group, weight.data());
    std::vector<Weighted> weighted(numbers.size());
    for (size_t i = 0; i < numbers.size(); i++)
        weighted[i] = {numbers[i], weight[i]};
    return weighted_quantile_of(weighted.data(), (int64_t)weighted.size(), t);
}

double quantile_of_labels(const Labels &labels, double t) {
    std::vector<double> y(labels.group->n_rows), offset(y.size());
    copy_labels(*labels.group, y.data());
    add_offsets(*labels.group, offset.data());
    for (size_t i = 0; i < y.size(); i++)
        y[i] -= offset[i];
    return quantile_of_rows(*labels.group, y, t);
}

} // namespace

namespace {

// A label as the mean counts it: for classes 1 for the positive one, else 0.
double counted(const Labels &labels, double y) {
    bool classes = labels.objective == TK_LOGISTIC || labels.objective == TK_GINI;
    return classes ? y == labels.positive : y;
}

} // namespace

double sum_of_labels(const Labels &labels) {
    ExactSum sum;
    for (const Piece &p : pieces_of(*labels.group))
        for (uint32_t i = 0; i < p.n; i++) {
            double y = counted(labels, p.y[i]);
            sum.add(p.weight ? p.weight[i] * y : y);
        }
    return sum.value();
}

bool has_log_link(int32_t objective) {
    return objective == TK_POISSON_TREES || objective == TK_GAMMA_TREES ||
           objective == TK_TWEEDIE_TREES;
}

double constant_of(int32_t objective, double sum, double total) {
    double mean = sum / total;
    if (has_log_link(objective))
        return std::log(mean > 0 ? mean : 1e-15);
    if (objective != TK_LOGISTIC)
        return mean;
    double share = std::clamp(mean, 1e-15, 1 - 1e-15);
    return std::log(share / (1 - share));
}

namespace {

using Pair = std::pair<double, double>;

// The sums over rows of body(label, weight, offset), two numbers. Weights are scaled, so that the
// ratio of the sums has the same bits in every unit of weights.
template <class Body> Pair sums_of(const Labels &labels, Body &&body) {
    ExactSum first, second;
    for (const Piece &p : pieces_of(*labels.group))
        for (uint32_t i = 0; i < p.n; i++) {
            double weight = p.weight ? scaled(labels.weights, splat(p.weight[i]))[0] : 1;
            auto [one, other] = body(p.y[i], weight, p.offset ? p.offset[i] : 0);
            first.add(one), second.add(other);
        }
    return {first.value(), second.value()};
}

// The log-odds for which the mean probability is the share of the positive class: by Newton's
// steps, within an interval that has the solution.
double odds_beside_offsets(const Labels &labels) {
    constexpr int MOST_STEPS = 200;
    constexpr double LONGEST = 4, NEAR = 1e-13;
    double b = 0, low = -__builtin_huge_val(), high = -low;
    for (int i = 0; i < MOST_STEPS; i++) {
        auto [slope, curve] = sums_of(labels, [&](double y, double w, double offset) {
            double p = 1 / (1 + std::exp(-(b + offset)));
            return Pair{w * (p - (y == labels.positive)), w * p * (1 - p)};
        });
        (slope > 0 ? high : low) = b;
        double step = curve > 0 ? std::clamp(-slope / curve, -LONGEST, LONGEST)
                                : std::copysign(LONGEST, -slope);
        double next = b + step;
        if (next <= low || next >= high)
            next = low / 2 + high / 2;
        if (!(std::fabs(next - b) > NEAR * (1 + std::fabs(b))))
            break;
        b = next;
    }
    return b;
}

// As constant_of, for rows with offsets.
double constant_beside_offsets(const Labels &labels) {
    if (labels.objective == TK_LOGISTIC)
        return odds_beside_offsets(labels);
    if (!has_log_link(labels.objective)) {
        auto [sum, total] = sums_of(
            labels, [](double y, double w, double offset) { return Pair{w * (y - offset), w}; });
        return sum / total;
    }
    double p = labels.objective == TK_GAMMA_TREES     ? 2
               : labels.objective == TK_TWEEDIE_TREES ? labels.shape
                                                      : 1;
    auto [sum, total] = sums_of(labels, [p](double y, double w, double offset) {
        return Pair{w * y * std::exp((1 - p) * offset), w * std::exp((2 - p) * offset)};
    });
    return constant_of(labels.objective, sum, total);
}

} // namespace

MeanRow mean_row_of(const Labels &labels) {
    auto [sum, total] = sums_of(
        labels, [&](double y, double w, double) { return Pair{w * counted(labels, y), w}; });
    return {sum / total, total / (double)labels.group->n_rows};
}

double best_constant(const Labels &labels) {
    if (labels.objective == TK_QUANTILE_TREES)
        return quantile_of_labels(labels, labels.shape);
    if (labels.objective == TK_HUBER_TREES && labels.shape == 0)
        return quantile_of_labels(labels, 0.5);
    if (!std::isfinite(labels.weights.total))
        return labels.weights.total;
    if (labels.group->extras & TUSK_OFFSETS)
        return constant_beside_offsets(labels);
    return constant_of(labels.objective, mean_row_of(labels).label, 1);
}

double threshold_of(const Labels &labels, const double *margins) {
    constexpr double EFFICIENT = 1.345, NORMAL = 0.6744897501960817;
    std::vector<double> size(labels.group->n_rows), weight(size.size());
    copy_labels(*labels.group, size.data());
    copy_weights(*labels.group, weight.data());
    double sum = 0, total = 0;
    for (size_t i = 0; i < size.size(); i++) {
        size[i] = std::fabs(size[i] - labels.origin - margins[i]);
        double own = scaled(labels.weights, splat(weight[i]))[0];
        sum += own * size[i], total += own;
    }
    double median = quantile_of_rows(*labels.group, size, 0.5);
    double scale = median > 0 ? median : sum / total;
    return scale > 0 ? EFFICIENT / NORMAL * scale : 1;
}

double take_losses(const Labels &labels, const double *margins, int threads, Addend *addends,
                   Units *units) {
    return with_loss(
        labels, [&](auto loss) { return take(loss, labels, margins, threads, addends, units); });
}

} // namespace tusk

double tk_usual_curvature(int32_t objective, double shape, double mean) {
    if (objective == TK_POISSON_TREES)
        return std::min(mean, 1.0);
    return objective == TK_TWEEDIE_TREES ? std::pow(mean, 2 - shape) : 1;
}
