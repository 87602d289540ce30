// Writes the nodes of a finished tree.
#include <algorithm>
#include <utility>

#include "../tree.hpp"

namespace tusk {
namespace {

// Adds the set of a split as levels. Returns its offset.
double write_set(const Split &split, const Bins &bins, Tree *out) {
    size_t begin = out->sets.size();
    const double *level = bins.bound.data() + bins.first[split.feature];
    out->sets.push_back(0);
    for (int32_t b = 0; b < bins.values(split.feature); b++) {
        if (!split.set.has((uint8_t)b))
            continue;
        auto at = (uint32_t)level[b];
        out->sets.resize(std::max(out->sets.size(), begin + 2 + at / 32));
        out->sets[begin + 1 + at / 32] += (double)(UINT32_C(1) << at % 32);
    }
    out->sets[begin] = (double)(out->sets.size() - begin - 1);
    return (double)begin;
}

void write_leaf(const Made &m, Tree *out) {
    out->nodes.push_back(tk_node{m.value, -1, -1, 0});
    out->gain.push_back(0);
    out->side.push_back(Side{});
}

void write_split(const Made &m, const Bins &bins, double scale, Tree *out) {
    const Split &split = m.split;
    double value = split.by_level ? write_set(split, bins, out)
                                  : bins.bound[bins.first[split.feature] + split.bin];
    int64_t missing = split.by_level ? TK_BY_LEVEL : split.missing_left;
    out->nodes.push_back(tk_node{value, split.feature, -1, missing});
    out->gain.push_back((float)(split.gain * scale));
    out->side.push_back(side_of(split, bins));
    if (!split.by_level)
        return;
    out->side.back().set = (int32_t)out->codes.size();
    out->codes.push_back(split.set);
}

} // namespace

// An explicit stack instead of recursion, because a tree may be as deep as it has leaves.
void write_tree(const std::vector<Made> &made, const Bins &bins, double scale, Tree *out) {
    *out = Tree{};
    out->nodes.reserve(made.size());
    out->gain.reserve(made.size());
    out->rows.reserve(made.size());
    out->side.reserve(made.size());
    // Nodes with the parents of right children; thread-local, as small groups have many small
    // trees.
    thread_local std::vector<std::pair<int32_t, int32_t>> left_to_do;
    left_to_do.assign(1, {0, -1});
    while (!left_to_do.empty()) {
        auto [node, parent] = left_to_do.back();
        left_to_do.pop_back();
        const Made &m = made[node];
        auto place = (int32_t)out->nodes.size();
        if (parent >= 0)
            out->nodes[parent].right = place;
        out->rows.push_back(m.rows);
        if (m.left < 0) {
            write_leaf(m, out);
            continue;
        }
        write_split(m, bins, scale, out);
        left_to_do.emplace_back(m.right, place);
        left_to_do.emplace_back(m.left, -1);
    }
}

} // namespace tusk
