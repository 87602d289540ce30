// Writes forests into the caller's arrays.
#include <algorithm>
#include <limits>

#include "forest.hpp"

namespace {

constexpr double NONE = std::numeric_limits<double>::quiet_NaN();
constexpr int NUMBERS = 6; // of a node

// Writes the six numbers of each node of a tree. from_end: distance of the tree's sets from the
// end of all sets.
double *write_nodes(const tusk::Tree &tree, double from_end, double *at) {
    for (size_t i = 0; i < tree.nodes.size(); i++, at += NUMBERS) {
        const tk_node &node = tree.nodes[i];
        at[0] = node.feature, at[2] = node.right, at[3] = tree.gain[i];
        at[1] = node.missing == TK_BY_LEVEL ? from_end - node.value : node.value;
        at[4] = (double)tree.rows[i], at[5] = (double)node.missing;
    }
    return at;
}

void copy_nodes(const tusk::Tree &tree, int64_t *sets, tk_forest_arrays *at) {
    for (tk_node node : tree.nodes) {
        if (node.missing == TK_BY_LEVEL)
            node.value += (double)*sets;
        *at->nodes++ = node;
    }
    std::copy(tree.sets.begin(), tree.sets.end(), at->sets + *sets);
    *sets += (int64_t)tree.sets.size();
    at->gain = std::copy(tree.gain.begin(), tree.gain.end(), at->gain);
    at->rows = std::copy(tree.rows.begin(), tree.rows.end(), at->rows);
}

} // namespace

void tk_forests_free(tk_forests *forests) {
    delete forests;
}

void tk_forests_about(const tk_forests *forests, tk_boosted *out) {
    for (const tusk::Forest &f : forests->of) {
        int64_t nodes = 0, sets = 0;
        for (const auto &tree : f.trees) {
            nodes += (int64_t)tree.nodes.size();
            sets += (int64_t)tree.sets.size();
        }
        bool held = !f.held.empty();
        double base = f.outputs() == 1 ? f.base[0] : 0;
        double best = held ? *std::min_element(f.held.begin(), f.held.end()) : NONE;
        *out++ = tk_boosted{
            base, f.base_loss, (int64_t)f.trees.size(), (int64_t)f.loss.size(), nodes, best, sets};
    }
}

void tk_forests_copy(const tk_forests *forests, int64_t group, const tk_forest_arrays *to) {
    const tusk::Forest &f = forests->of[group];
    tk_forest_arrays at = *to;
    if (at.base)
        std::copy(f.base.begin(), f.base.end(), at.base);
    *at.start = 0;
    int64_t sets = 0; // numbers so far
    for (const auto &tree : f.trees) {
        if (at.nodes)
            copy_nodes(tree, &sets, &at);
        at.start[1] = at.start[0] + (int64_t)tree.nodes.size();
        at.start++;
    }
    std::copy(f.loss.begin(), f.loss.end(), at.loss);
    if (at.held)
        std::copy(f.held.begin(), f.held.end(), at.held);
}

void tk_forests_numbers(const tk_forests *forests, int64_t group, int64_t features, double *out) {
    const tusk::Forest &f = forests->of[group];
    int64_t bases = f.outputs() > 1 ? f.outputs() : 0;
    *out++ = (double)features, *out++ = (double)f.trees.size(), *out++ = (double)bases;
    out = std::copy_n(f.base.begin(), bases, out);
    double sets = 0; // count of numbers in sets from the tree's on
    for (const auto &tree : f.trees) {
        *out++ = (double)tree.nodes.size();
        sets += (double)tree.sets.size();
    }
    for (const auto &tree : f.trees) {
        out = write_nodes(tree, sets, out);
        sets -= (double)tree.sets.size();
    }
    for (const auto &tree : f.trees)
        out = std::copy(tree.sets.begin(), tree.sets.end(), out);
}
