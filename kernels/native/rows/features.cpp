// Statistics of the features of sparse rows: how often they occur, and their sizes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "../linear/sparse.hpp"
#include "api.h"

namespace tusk {
namespace {

constexpr int64_t MOST_SHARED = 1 << 16; // number of features up to which each thread counts
                                         // separately

template <class T> void count_features(const tusk_segment *s, double *count, double *largest) {
    const int32_t *index = tusk_indices(s);
    const T *value = (const T *)tusk_sparse_values(s);
    for (uint32_t k = 0; k < s->nnz; k++) {
        count[index[k]] += 1;
        largest[index[k]] = std::max(largest[index[k]], (double)std::fabs(value[k]));
    }
}

template <class T> void count_features(const tusk_group &group, double *count, double *largest) {
    for (const tusk_segment *s : SegmentsOf(group))
        count_features<T>(s, count, largest);
}

// The same for one group by several threads, each with separate counts.
template <class T>
void count_together(const tusk_group &group, int threads, double *count, double *largest) {
    const int64_t d = group.dim, room = 2 * d + 16; // threads share no cache line of counts
    std::vector<const tusk_segment *> segments;
    for (const tusk_segment *s : SegmentsOf(group))
        segments.push_back(s);
    const int64_t n = (int64_t)segments.size();
    std::vector<double> all((size_t)(threads * room), 0.0);
    parallel_for(threads, threads, [&](int64_t share) {
        double *own = all.data() + share * room;
        for (int64_t i = n * share / threads; i < n * (share + 1) / threads; i++)
            count_features<T>(segments[(size_t)i], own, own + d);
    });
    for (int64_t share = 0; share < threads; share++) {
        const double *own = all.data() + share * room;
        for (int64_t k = 0; k < d; k++) {
            count[k] += own[k];
            largest[k] = std::max(largest[k], own[d + k]);
        }
    }
}

// A feature that most rows have without repetition, and sums of its values minus the first.
struct Filled {
    int32_t id;
    double first, sum, squares;
    int64_t rows, last; // rows that have it, and the latest of these

    void add(int64_t row, double value) {
        if (value == 0) // counts as missing
            return;
        if (!rows)
            first = value;
        const double by = value - first;
        sum += by;
        squares += by * by;
        rows = last == row ? TWICE : rows + 1;
        last = row;
    }

    static constexpr int64_t TWICE = std::numeric_limits<int64_t>::min() / 2;
};

// The features of a group, in the order of their ids, that more than half of the rows may have;
// share: fraction of rows that have a feature, (d,). If it is null, these are the features of the
// first row.
std::vector<Filled> candidates(const tusk_group &group, const double *share) {
    std::vector<Filled> found;
    auto add = [&](int32_t id) { found.push_back({id, 0, 0, 0, 0, -1}); };
    if (share) {
        for (int64_t id = 0; id < group.dim; id++)
            if (share[id] > 0.5)
                add((int32_t)id);
        return found;
    }
    const tusk_segment *s = group.head;
    std::vector<int32_t> ids(tusk_indices(s), tusk_indices(s) + tusk_row_starts(s)[1]);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    std::for_each(ids.begin(), ids.end(), add);
    return found;
}

// The features of more than half of a group's rows or, without shares, of all: for most groups
// none is left after a few rows then.
template <class T> std::vector<Filled> filled(const tusk_group &group, const double *share) {
    std::vector<Filled> found = candidates(group, share);
    const int64_t spare = share ? (group.n_rows - 1) / 2 : 0;
    int64_t row = 0;
    for (const tusk_segment *s : SegmentsOf(group)) {
        const uint32_t *start = tusk_row_starts(s);
        const int32_t *index = tusk_indices(s);
        const T *value = (const T *)tusk_sparse_values(s);
        for (uint32_t i = 0; i < s->n_rows; i++, row++) {
            if (found.empty())
                return found;
            auto next = found.begin();
            for (uint32_t k = start[i]; k < start[i + 1]; k++) {
                if (next == found.end() || next->id != index[k])
                    next = std::lower_bound(found.begin(), found.end(), index[k],
                                            [](const Filled &a, int32_t id) { return a.id < id; });
                if (next != found.end() && next->id == index[k])
                    (next++)->add(row, (double)value[k]);
            }
            std::erase_if(found, [&](const Filled &a) { return a.rows + spare <= row; });
        }
    }
    return found;
}

constexpr int64_t MOST_ENTRIES = 1 << 20; // of a group show where values are crowded

// The root mean square of the nonzero values up to `share` of the largest, of features of which
// at least three in four are; 0 for others.
template <class T>
void find_crowded(const tusk_group &group, double share, const double *largest, double *spread) {
    const auto d = (size_t)group.dim;
    std::vector<int64_t> near(d), far(d);
    std::fill_n(spread, d, 0.0);
    int64_t left = MOST_ENTRIES;
    for (const tusk_segment *s : SegmentsOf(group)) {
        const int32_t *index = tusk_indices(s);
        const T *value = (const T *)tusk_sparse_values(s);
        for (uint32_t k = 0; k < s->nnz; k++) {
            const auto id = (size_t)index[k];
            const double v = (double)value[k];
            const bool small = std::fabs(v) <= share * largest[id];
            spread[id] += small ? v * v : 0;
            near[id] += small && v != 0;
            far[id] += !small;
        }
        left -= s->nnz;
        if (left <= 0)
            break;
    }
    for (size_t id = 0; id < d; id++)
        spread[id] = near[id] > 3 * far[id] ? std::sqrt(spread[id] / (double)near[id]) : 0;
}

// Whether every nonzero value v has low <= |v| <= high.
template <class T> bool within(const tusk_group &group, T low, T high) {
    for (const tusk_segment *s : SegmentsOf(group)) {
        const T *value = (const T *)tusk_sparse_values(s);
        int64_t outside = 0;
        for (uint32_t k = 0; k < s->nnz; k++) {
            T size = std::fabs(value[k]);
            outside += (size < low && size > 0) || size > high;
        }
        if (outside)
            return false;
    }
    return true;
}

} // namespace
} // namespace tusk

int tk_feature_counts(const tk_pass *pass, double *count, double *largest) {
    using namespace tusk;
    return code_of([&] {
        int64_t d = pass->groups[0].dim;
        std::fill_n(count, pass->n_groups * d, 0.0);
        std::fill_n(largest, pass->n_groups * d, 0.0);
        return with_storage(pass, [&]<class T>(const T *) {
            if (pass->n_groups == 1 && pass->threads > 1 && d <= MOST_SHARED)
                count_together<T>(pass->groups[0], pass->threads, count, largest);
            else
                parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
                    count_features<T>(pass->groups[g], count + g * d, largest + g * d);
                });
            return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
        });
    });
}

int tk_far_means(const tk_pass *pass, double times, const double *share, double *mean,
                 double *deviation) {
    using namespace tusk;
    return code_of([&] {
        const int64_t d = pass->groups[0].dim;
        std::fill_n(mean, pass->n_groups * (d + 1), 0.0);
        std::fill_n(deviation, pass->n_groups * (d + 1), 0.0);
        return with_storage(pass, [&]<class T>(const T *) {
            parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
                for (const Filled &one :
                     filled<T>(pass->groups[g], share ? share + g * d : nullptr)) {
                    const double by = one.sum / (double)one.rows, centre = one.first + by;
                    const double spread =
                        std::sqrt(std::max(one.squares / (double)one.rows - by * by, 0.0));
                    if (std::fabs(centre) > times * spread && one.squares > 0) {
                        mean[g * (d + 1) + one.id] = centre;
                        deviation[g * (d + 1) + one.id] = spread;
                    }
                }
            });
            return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
        });
    });
}

int tk_crowded_entries(const tk_pass *pass, double share, const double *largest, double *spread) {
    using namespace tusk;
    return code_of([&] {
        const int64_t d = pass->groups[0].dim;
        return with_storage(pass, [&]<class T>(const T *) {
            parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
                find_crowded<T>(pass->groups[g], share, largest + g * d, spread + g * d);
            });
            return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
        });
    });
}

int tk_values_near_one(const tk_pass *pass) {
    using namespace tusk;
    return with_storage(pass, [&]<class T>(const T *) {
        for (int64_t g = 0; g < pass->n_groups; g++) {
            const tusk_segment *s = pass->groups[g].head;
            const T *value = (const T *)tusk_sparse_values(s);
            double largest = 0;
            for (uint32_t k = 0; k < s->nnz; k++)
                largest = std::max(largest, (double)std::fabs(value[k]));
            if (largest < 1.0 / 16 || largest > 16)
                return 0;
        }
        for (int64_t g = 0; g < pass->n_groups; g++)
            if (!within<T>(pass->groups[g], (T)(1.0 / TK_NEAR_ONE), (T)TK_NEAR_ONE))
                return 2;
        return 1;
    });
}
