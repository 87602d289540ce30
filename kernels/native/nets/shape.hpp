// Layout of the weights of a net.
#pragma once

#include <vector>

#include "api.h"
#include "arithmetic/floats.hpp"

namespace tusk {

// A layer in a flat array of floats. Its matrix is (in, padded(out)); of a layer with few units it
// is (out, padded(in)), so that no register is mostly padding. Then come padded(out) biases.
// Padding is 0 and stays so: its gradients are 0.
struct Layer {
    int64_t in, out;
    bool few;
    int64_t weights, biases; // their offsets

    int64_t items() const { return few ? out * padded(in) : in * padded(out); }
    int64_t end() const { return biases + padded(out); }
    // The index of the weight of input i for unit j.
    int64_t place(int64_t i, int64_t j) const {
        return weights + (few ? j * padded(in) + i : i * padded(out) + j);
    }
};

// The vectors of the levels of a category, (levels, dim).
struct Table {
    int64_t first, levels, dim; // first: feature
    int64_t vectors;            // their offset
    int64_t input;              // of the first layer, at which the vector begins

    int64_t items() const { return levels * dim; }
};

struct Shape {
    std::vector<Layer> layers;
    std::vector<Table> tables;
    int64_t features, plain; // plain: features outside of tables
    bool sparse;             // whether steps change only the vectors of a batch's levels

    Shape(const tk_net &net, int64_t d)
        : features(d), plain(d), sparse(net.sparse && net.n_tables > 0) {
        for (int64_t t = 0; t < net.n_tables; t++) {
            const int32_t *given = net.table + 3 * t;
            tables.push_back({given[0], given[1], given[2], 0, 0});
            plain -= given[1];
        }
        int64_t inputs = plain, at = 0;
        for (Table &table : tables) {
            table.input = inputs;
            inputs += table.dim;
        }
        for (int l = 0; l <= net.n_hidden; l++) {
            int64_t out = l < net.n_hidden ? net.width[l] : net.outputs;
            Layer layer{inputs, out, out < PAD / 2, at, 0};
            layer.biases = at + layer.items();
            at = layer.end();
            layers.push_back(layer);
            inputs = out;
        }
        for (Table &table : tables) {
            table.vectors = at;
            at += padded(table.items());
        }
        floats_ = at;
    }

    int64_t floats() const { return floats_; }
    int64_t of_layers() const { return layers.back().end(); }
    // Floats of a gradient, without vectors if steps are sparse.
    int64_t of_gradient() const { return sparse ? of_layers() : floats(); }
    // Inputs of the first layer that are parts of vectors.
    int64_t embedded() const { return inputs() - plain; }
    // Floats between rows: the plain features, and of each table the number of the level.
    int64_t stride() const { return padded(plain + (int64_t)tables.size()); }
    int64_t inputs() const { return layers.front().in; }
    int64_t outputs() const { return layers.back().out; }

    int64_t weights() const {
        int64_t n = 0;
        for (const Layer &layer : layers)
            n += layer.out * (layer.in + 1);
        for (const Table &table : tables)
            n += table.items();
        return n;
    }

private:
    int64_t floats_ = 0;
};

} // namespace tusk
