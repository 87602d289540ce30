// Features whose weights enter a model together: the penalty l1 sqrt(p) ||w|| + l2/2 ||w||^2 of a
// block of p features (M. Yuan and Y. Lin, Model selection and estimation in regression with
// grouped variables, JRSS B 68, 2006). Single features are in no block.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "../penalty.hpp"

namespace tusk {

// Assignment of features to blocks.
struct Blocks {
    std::vector<int32_t> of; // (d,) the block of a feature, -1: none; empty: no blocks
    std::vector<std::vector<int32_t>> members;
    std::vector<double> root; // of the number of members

    bool empty() const { return members.empty(); }
    int32_t at(int64_t j) const { return of.empty() ? -1 : of[j]; }

    // number: (d,) features with equal numbers form a block, NULL: no blocks.
    static Blocks made(const int32_t *number, int64_t d);
    // By block: ||v|| / sqrt(p) of its members' numbers.
    std::vector<double> sizes(const std::vector<double> &v) const;
};

constexpr size_t MOST_ROTATED = 128; // largest block whose eigenvectors are computed

// The eigenvectors of A^T A, (p, p) by rows, and its eigenvalues, for the columns A of a block.
// With more than MOST_ROTATED features there are no vectors, which stands for the unit vectors,
// and a bound of all eigenvalues.
struct Spectrum {
    std::vector<double> vectors, values;
};

// m: (p, p) symmetric and positive semidefinite, p at most MOST_ROTATED.
Spectrum spectrum_of(std::vector<double> m, size_t p);

// A block among the coordinates of a descent: those from `at` on.
struct Unit {
    size_t at, count;
    double root;
    std::shared_ptr<const Spectrum> spectrum;

    // The w that minimises 1/2 w^T S w - (u + S w0)^T w and the penalty, where S has the spectrum.
    // to: (count,). u: minus the gradients at w0.
    void least(const Penalty &penalty, const double *u, const double *w0, double *to) const;
};

// The products of a block's columns with each other. Restores the state's numbers.
template <class State> Spectrum spectrum_of(State &state, size_t at, size_t count) {
    const bool many = count > MOST_ROTATED;
    std::vector<double> kept(state.numbers), m(many ? 0 : count * count), sums(many ? count : 0);
    for (size_t a = 0; a < count; a++) {
        std::fill(state.numbers.begin(), state.numbers.end(), 0.0);
        state.move(at + a, -1);
        for (size_t b = 0; b <= a; b++) {
            double product = state.gradient(at + b);
            if (!many) {
                m[a * count + b] = m[b * count + a] = product;
                continue;
            }
            sums[a] += std::abs(product);
            sums[b] += b < a ? std::abs(product) : 0;
        }
    }
    state.numbers.swap(kept);
    if (!many)
        return spectrum_of(std::move(m), count);
    double most = *std::max_element(sums.begin(), sums.end()); // Gershgorin's bound
    return {{}, std::vector<double>(count, most)};
}

// Sums over the members of blocks, whose parts come in any order.
struct BlockSums {
    const Blocks &blocks;
    std::vector<double> weights, gradients; // squares, by block

    explicit BlockSums(const Blocks &b)
        : blocks(b), weights(b.members.size()), gradients(b.members.size()) {}
    void add(const Penalty &p, int32_t block, double w, double u) {
        weights[block] += w * w;
        gradients[block] += (u - p.l2 * w) * (u - p.l2 * w);
    }
    void into(const Penalty &p, GapSums &sums) const {
        for (size_t b = 0; b < weights.size(); b++)
            sums.add_block(p, blocks.root[b], weights[b], gradients[b]);
    }
};

} // namespace tusk
