// Losses of margins, and their derivatives.
#include <algorithm>
#include <cmath>

#include "passes.hpp"

namespace tusk {
namespace {

// Sums losses of rows with one margin: body(m, y, &derivative) computes WIDE rows at once.
template <class Loss>
double of_one_margin(float *margins, const float *y, const float *weight, int64_t n, float scale,
                     Loss loss) {
    double total = 0;
    for (int64_t i = 0; i < n; i += WIDE) {
        auto rows = (int)std::min<int64_t>(WIDE, n - i);
        float m[WIDE] = {}, label[WIDE] = {}, share[WIDE] = {}, slope[WIDE];
        for (int k = 0; k < rows; k++) {
            m[k] = margins[(i + k) * PAD];
            label[k] = y[i + k];
            share[k] = weight ? weight[i + k] : 1;
        }
        vf derivative, shares = load(share);
        total += sum(shares * loss(load(m), load(label), &derivative));
        store(slope, shares * (derivative * scale));
        for (int k = 0; k < rows; k++)
            margins[(i + k) * PAD] = slope[k];
    }
    return total;
}

struct Squared {
    vf operator()(vf m, vf y, vf *derivative) const {
        *derivative = m - y;
        return 0.5f * *derivative * *derivative;
    }
};

// For labels 0 and 1: log(1 + exp(m)) - y m, without an exp that overflows.
struct Logistic {
    vf operator()(vf m, vf y, vf *derivative) const {
        vf e = exp_negative(-vabs(m));
        *derivative = select(m < 0.0f, e, vf{} + 1.0f) / (1.0f + e) - y;
        return select(m < 0.0f, vf{}, m) - y * m + log1p_unit(e);
    }
};

double softmax_row(float *m, int64_t outputs, int64_t own, float scale) {
    float most = *std::max_element(m, m + outputs);
    double loss = (double)most - m[own], total = 0;
    for (int64_t k = 0; k < padded(outputs); k += WIDE)
        store(m + k, exp_negative(load(m + k) - most));
    std::fill(m + outputs, m + padded(outputs), 0.0f);
    for (int64_t k = 0; k < outputs; k++)
        total += m[k];
    float factor = scale / (float)total;
    for (int64_t k = 0; k < outputs; k++)
        m[k] *= factor;
    m[own] -= scale;
    return loss + std::log(total);
}

} // namespace

double output_losses(const tk_net &net, float *margins, const float *y, const float *weight,
                     int64_t n, float scale) {
    int64_t outputs = net.outputs;
    if (net.loss == TK_NET_SQUARED)
        return of_one_margin(margins, y, weight, n, scale, Squared{});
    if (net.loss == TK_NET_LOGISTIC)
        return of_one_margin(margins, y, weight, n, scale, Logistic{});
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        auto own = (int64_t)y[i];
        float share = weight ? weight[i] : 1;
        total += share * softmax_row(margins + i * padded(outputs), outputs, own, share * scale);
    }
    return total;
}

} // namespace tusk
