// Where the weights of a net lie.
#pragma once

#include <vector>

#include "api.h"
#include "floats.hpp"

namespace tusk {

// A layer in a flat array of floats. Its matrix is (in, padded(out)); of a layer with few units it
// is (out, padded(in)), so that no register is mostly padding. Then come padded(out) biases.
// Padding is 0 and stays so: its gradients are 0.
struct Layer {
    int64_t in, out;
    bool few;
    int64_t weights, biases; // where they begin

    int64_t items() const { return few ? out * padded(in) : in * padded(out); }
    int64_t end() const { return biases + padded(out); }
    // The place of the weight of input i for unit j.
    int64_t place(int64_t i, int64_t j) const {
        return weights + (few ? j * padded(in) + i : i * padded(out) + j);
    }
};

struct Shape {
    std::vector<Layer> layers;

    Shape(const tk_net &net, int64_t inputs) {
        int64_t at = 0;
        for (int l = 0; l <= net.n_hidden; l++) {
            int64_t out = l < net.n_hidden ? net.width[l] : net.outputs;
            Layer layer{inputs, out, out < PAD / 2, at, 0};
            layer.biases = at + layer.items();
            at = layer.end();
            layers.push_back(layer);
            inputs = out;
        }
    }

    int64_t floats() const { return layers.back().end(); }
    int64_t inputs() const { return layers.front().in; }
    int64_t outputs() const { return layers.back().out; }

    int64_t weights() const {
        int64_t n = 0;
        for (const Layer &layer : layers)
            n += layer.out * (layer.in + 1);
        return n;
    }
};

} // namespace tusk
