// Activations of hidden units, and their derivatives.
#pragma once

#include "../api.h"
#include "floats.hpp"

namespace tusk {

struct Activated {
    vf value, slope;
};

struct Relu {
    Activated operator()(vf z) const {
        // NaN stays NaN
        return {select(z < 0.0f, vf{}, z), select(z > 0.0f, vf{} + 1.0f, vf{})};
    }
};

struct Tanh {
    Activated operator()(vf z) const {
        vf t = exp_negative(-2.0f * vabs(z)), a = (1.0f - t) / (1.0f + t);
        a = select(z < 0.0f, -a, a);
        return {a, 1.0f - a * a};
    }
};

// z P(z), P the normal distribution (Hendrycks and Gimpel, 2016), by formula 7.1.26 of Abramowitz
// and Stegun, whose error is below 1.5e-7.
struct Gelu {
    Activated operator()(vf z) const {
        vf x = vabs(z) * 0.707106781f, e = exp_negative(-x * x);
        vf t = 1.0f / (1.0f + 0.3275911f * x);
        vf p = t * 1.061405429f - 1.453152027f;
        p = p * t + 1.421413741f;
        p = p * t - 0.284496736f;
        p = p * t + 0.254829592f;
        vf tail = 0.5f * p * t * e; // probability of the distribution beyond |z|
        vf below = select(z < 0.0f, tail, 1.0f - tail);
        return {z * below, below + z * e * 0.398942280f};
    }
};

// Calls body(activation).
template <class Body> inline void with_activation(int32_t activation, Body &&body) {
    if (activation == TK_NET_RELU)
        body(Relu{});
    else if (activation == TK_NET_TANH)
        body(Tanh{});
    else
        body(Gelu{});
}

} // namespace tusk
