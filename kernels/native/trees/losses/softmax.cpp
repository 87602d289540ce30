// Takes losses of more than two classes.
#include "softmax.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../../shared/common/exact_sum.hpp"
#include "../../shared/pool.hpp"

namespace tusk {
namespace {

constexpr int64_t STRETCH = 8192; // rows of one piece of work, whole vectors of them

// Up to eight neighbouring numbers, padded with the last one.
v8d some_of(const double *at, int n) {
    if (n == LANES)
        return load(at);
    v8d v{};
    for (int i = 0; i < LANES; i++)
        v[i] = at[std::min(i, n - 1)];
    return v;
}

} // namespace

int ClassLosses::take(tusk_memory *memory, const tusk_group &group, const double *classes,
                      int64_t k) {
    double room = weights_.room;
    n_ = group.n_rows, k_ = k, weights_ = weights_of(group);
    weights_.room = room;
    bool weighted = group.extras & TUSK_WEIGHTS;
    int code = place_.take(memory, n_);
    code = code ? code : sum_.take(memory, n_);
    if (!code && weighted)
        code = weight_.take(memory, n_);
    if (code)
        return code;
    weight_of_ = weighted ? weight_.data() : nullptr;
    if (weighted)
        copy_weights(group, weight_.data());
    copy_labels(group, sum_.data());
    for (int64_t i = 0; i < n_; i++) {
        const double *found = std::lower_bound(classes, classes + k, sum_.data()[i]);
        place_.data()[i] = (int32_t)std::min<int64_t>(found - classes, k - 1);
    }
    return TK_OK;
}

void ClassLosses::sums(double *out) const {
    std::vector<ExactSum> sums(k_);
    for (int64_t i = 0; i < n_; i++)
        sums[place_.data()[i]].add(weight_of_ ? weight_of_[i] : 1);
    std::transform(sums.begin(), sums.end(), out, [](ExactSum &sum) { return sum.value(); });
}

double ClassLosses::base_of(double sum, double total) {
    return std::log(std::max(sum / total, 1e-15));
}

void ClassLosses::bases(double *out) const {
    std::vector<ExactSum> sums(k_);
    ExactSum total;
    for (int64_t i = 0; i < n_; i++) {
        double own = weight_of_ ? scaled(weights_, splat(weight_of_[i]))[0] : 1;
        sums[place_.data()[i]].add(own), total.add(own);
    }
    for (int64_t c = 0; c < k_; c++)
        out[c] = base_of(sums[c].value(), total.value());
}

// Units for a derivative of up to 1, summed over all weights, and a curvature of up to 1/2.
Units ClassLosses::units_for(const Weights &weights) {
    int exponent = 0, largest = 0;
    double total = scaled(weights, splat(weights.total))[0] * weights.room;
    double most = scaled(weights, splat(weights.most))[0] * weights.room;
    std::frexp(std::max(total, 1e-280), &exponent);
    double part = std::frexp(std::max(most, 1e-280), &largest);
    largest -= part == 0.5; // the weight is this power of two
    return Units{std::ldexp(1.0, exponent - 62), std::ldexp(1.0, largest - 24)};
}

double ClassLosses::losses(const double *margins, int threads) {
    int64_t parts = (n_ + STRETCH - 1) / STRETCH;
    std::vector<double> totals(parts);
    parallel_for(parts, threads, [&](int64_t part) {
        double total = 0;
        int64_t end = std::min(n_, (part + 1) * STRETCH);
        for (int64_t at = part * STRETCH; at < end; at += LANES) {
            int n = (int)std::min<int64_t>(LANES, end - at);
            v8d most = some_of(margins + at, n), sum{};
            for (int64_t c = 1; c < k_; c++)
                most = vmax(most, some_of(margins + c * n_ + at, n));
            for (int64_t c = 0; c < k_; c++)
                sum += exp_negative(some_of(margins + c * n_ + at, n) - most);
            for (int i = 0; i < n; i++) {
                double whole = most[i] + std::log(sum[i]);
                sum_.data()[at + i] = whole;
                double loss = whole - margins[place_.data()[at + i] * n_ + at + i];
                total += weight_of_ ? weight_of_[at + i] * loss : loss;
            }
        }
        totals[part] = total;
    });
    double total = 0;
    for (double one : totals)
        total += one;
    return total / weights_.total;
}

void ClassLosses::addends(const double *margins, int64_t of, int threads, Addend *out,
                          Units *units) const {
    *units = units_for(weights_);
    double factor = (double)k_ / (double)(k_ - 1);
    const double *own = margins + of * n_;
    int64_t parts = (n_ + STRETCH - 1) / STRETCH;
    parallel_for(parts, threads, [&](int64_t part) {
        int64_t end = std::min(n_, (part + 1) * STRETCH);
        for (int64_t at = part * STRETCH; at < end; at += LANES) {
            int n = (int)std::min<int64_t>(LANES, end - at);
            v8d p = exp_negative(some_of(own + at, n) - some_of(sum_.data() + at, n));
            v8d y{};
            for (int i = 0; i < LANES; i++)
                y[i] = place_.data()[at + std::min(i, n - 1)] == of;
            v8d w = weight_of_ ? scaled(weights_, some_of(weight_of_ + at, n)) : splat(1);
            write_addends(w * (p - y), w * factor * p * (1.0 - p), *units, n, out + at);
        }
    });
}

} // namespace tusk
