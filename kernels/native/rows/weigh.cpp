// Copies of groups whose rows have weights by their labels.
#include <algorithm>
#include <cstring>

#include "../shared/rows.hpp"
#include "../shared/segments.hpp"
#include "shuffle.hpp"

namespace tusk {
namespace {

// The distinct labels of a group, rising, and their factors.
struct Factors {
    const double *label, *factor;
    int64_t n;

    double of(double y) const {
        const double *found = std::lower_bound(label, label + n, y);
        return found < label + n && *found == y ? factor[found - label] : 1;
    }
};

void copy_values(const tusk_segment *from, tusk_segment *to, tusk_shape shape) {
    size_t rows = from->n_rows, size = tusk_value_size(shape.kind);
    std::memcpy(tusk_labels(to), tusk_labels(from), rows * sizeof(double));
    if (!tusk_is_sparse(shape.kind)) {
        std::memcpy(tusk_dense_values(to), tusk_dense_values(from), rows * shape.dim * size);
        return;
    }
    std::memcpy(tusk_row_starts(to), tusk_row_starts(from), (rows + 1) * sizeof(uint32_t));
    std::memcpy(tusk_indices(to), tusk_indices(from), from->nnz * sizeof(int32_t));
    std::memcpy(tusk_sparse_values(to), tusk_sparse_values(from), from->nnz * size);
}

int weigh(const tusk_group &group, tusk_memory *memory, const Factors &factors, tusk_group *out) {
    *out = group;
    out->extras |= TUSK_WEIGHTS;
    out->head = nullptr;
    tusk_shape before = tusk_shape_of(&group), after = tusk_shape_of(out);
    tusk_segment **link = const_cast<tusk_segment **>(&out->head);
    for (const tusk_segment *s : SegmentsOf(group)) {
        int code = TUSK_OK;
        tusk_segment *to = tusk_segment_new(memory, after, s->n_rows, s->nnz, &code);
        if (!to)
            return code == TUSK_DISK_FULL ? TK_DISK_FULL : TK_NO_MEMORY;
        *link = to;
        link = &to->next;
        copy_values(s, to, before);
        tusk_copy_extras(to, after, 0, s, before, 0, s->n_rows);
        to->n_rows = s->n_rows;
        to->nnz = s->nnz;
        const double *y = tusk_labels(s), *own = tusk_extra(s, before, TUSK_WEIGHTS);
        double *weight = tusk_extra(to, after, TUSK_WEIGHTS);
        for (uint32_t row = 0; row < s->n_rows; row++)
            weight[row] = (own ? own[row] : 1) * factors.of(y[row]);
    }
    return TK_OK;
}

} // namespace
} // namespace tusk

int tk_weigh(const tk_pass *pass, tusk_memory *memory, const double *label, const double *factor,
             const int64_t *start, tusk_group *out) {
    using namespace tusk;
    std::memset(out, 0, pass->n_groups * sizeof *out);
    int code = code_of([&] {
        return for_each_group(pass, [&](int64_t g, int) {
            Factors own{label + start[g], factor + start[g], start[g + 1] - start[g]};
            return weigh(pass->groups[g], memory, own, out + g);
        });
    });
    if (code)
        tk_free_groups(out, pass->n_groups);
    return code;
}
