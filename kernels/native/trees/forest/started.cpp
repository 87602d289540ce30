// Margins of trees by the values of rows that are not binned.
#include "forest.hpp"

#include <utility>
#include <vector>

#include "../../shared/pool.hpp"
#include "../../shared/segments.hpp"

namespace tusk {
namespace {

// set: a number of words, and the words.
bool has_level(const double *set, double level) {
    if (!(level >= 0 && level < 32 * set[0]))
        return false;
    auto at = (uint64_t)level;
    return (double)at == level && ((uint32_t)set[1 + at / 32] >> at % 32 & 1);
}

template <class T> double value_of(const tk_started &from, int64_t tree, const T *row) {
    const tk_node *nodes = from.nodes + from.start[tree];
    int32_t at = 0;
    while (nodes[at].feature >= 0) {
        const tk_node &node = nodes[at];
        auto x = (double)row[node.feature];
        bool left = x == x ? x <= node.value : node.missing == 1;
        if (node.missing == TK_BY_LEVEL)
            left = has_level(from.sets + (int64_t)node.value, x);
        at = left ? at + 1 : node.right;
    }
    return nodes[at].value;
}

struct Part {
    const tusk_segment *segment;
    int64_t first; // first row
};

template <class T>
void add_to(const tk_started &from, const tusk_group &group, int64_t outputs, Part part,
            double *margins) {
    const T *row = (const T *)tusk_dense_values(part.segment);
    for (int64_t i = part.first; i < part.first + part.segment->n_rows; i++, row += group.dim)
        for (int64_t t = 0; t < from.trees; t++)
            margins[t % outputs * group.n_rows + i] += value_of(from, t, row);
}

} // namespace

void add_started(const tk_started &from, const tusk_group &group, int64_t outputs, int threads,
                 int64_t cancel_mark, double *margins) {
    std::vector<Part> parts;
    int64_t first = 0;
    for (const tusk_segment *s : SegmentsOf(group)) {
        parts.push_back({s, first});
        first += s->n_rows;
    }
    bool f64 = group.kind == TUSK_DENSE_F64;
    parallel_for((int64_t)parts.size(), threads, [&](int64_t i) {
        if (cancelled(cancel_mark))
            return;
        if (f64)
            add_to<double>(from, group, outputs, parts[i], margins);
        else
            add_to<float>(from, group, outputs, parts[i], margins);
    });
}

} // namespace tusk
