// Which features are the label itself: equal to it in every row of a group.
#include <vector>

#include "../shared/rows.hpp"
#include "../shared/segments.hpp"
#include "shuffle.hpp"

namespace tusk {
namespace {

// Looks at the features that are left after each row, which are soon none.
template <class T> int32_t first_leak(const tusk_group &group) {
    std::vector<int32_t> left(group.dim);
    for (int32_t j = 0; j < group.dim; j++)
        left[j] = j;
    double first = 0;
    bool begun = false, varies = false;
    for (const tusk_segment *s : SegmentsOf(group)) {
        const T *x = (const T *)tusk_dense_values(s);
        const double *y = tusk_labels(s);
        for (uint32_t row = 0; row < s->n_rows && !left.empty(); row++, x += group.dim) {
            first = begun ? first : y[row];
            begun = true;
            varies |= y[row] != first;
            const T label = (T)y[row];
            std::erase_if(left, [&](int32_t j) { return x[j] != label; });
        }
    }
    return varies && !left.empty() ? left[0] + 1 : 0;
}

int leaks(const tk_pass *pass, int64_t least, int32_t *out) {
    return for_each_group(pass, [&](int64_t g, int) {
        const tusk_group &group = pass->groups[g];
        bool looks = !tusk_is_sparse(group.kind) && group.n_rows >= least;
        out[g] = !looks           ? 0
                 : group.kind & 1 ? first_leak<double>(group)
                                  : first_leak<float>(group);
        return (int)TK_OK;
    });
}

} // namespace
} // namespace tusk

int tk_leaks(const tk_pass *pass, int64_t least, int32_t *out) {
    using namespace tusk;
    return code_of([&] { return leaks(pass, least, out); });
}
