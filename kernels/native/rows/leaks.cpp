// Finds features that determine the label in every row of a group: the label itself, or a linear
// function of it; and for labels of a few values, features that identify one value each, like the
// levels of a category.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "../../../udas/rowblock/merge.h"
#include "../shared/rows.hpp"
#include "../shared/segments.hpp"
#include "shuffle.hpp"

namespace tusk {
namespace {

constexpr size_t MOST_VALUES = 16;    // largest number of label values that are checked one by one
constexpr double BY_CHANCE = 1e-4;    // probability limit of a fit of one of all features by
                                      // chance
constexpr double MOST_ROUNDED = 1e-3; // largest rounding error of sums, relative to the range of
                                      // the labels
constexpr double MOST_CAST = 1e-6;    // likewise, for features that were FLOAT once

struct Row {
    const tusk_segment *segment = nullptr;
    uint32_t at = 0;
    double label() const { return tusk_labels(segment)[at]; }
};

// The labels of a group: the least and the largest, and the values while they are few.
struct LabelsSeen {
    struct Value {
        Row row; // the first one
        int64_t count;
    };
    Row low, high;
    std::vector<Value> values;
    bool few = true;

    explicit LabelsSeen(const tusk_group &group) {
        const tusk_shape shape = tusk_shape_of(&group);
        for (const tusk_segment *s : SegmentsOf(group)) {
            const double *times =
                group.extras & TUSK_COUNTS ? tusk_extra(s, shape, TUSK_WEIGHTS) : nullptr;
            for (uint32_t row = 0; row < s->n_rows; row++)
                add({s, row}, times ? (int64_t)times[row] : 1);
        }
    }

    // The logarithm of the number of distinct orders of the rows; with many values a lower bound.
    double orders(int64_t n) const {
        double found = std::lgamma((double)n + 1);
        int64_t others = n;
        for (const Value &value : values) {
            found -= std::lgamma((double)value.count + 1);
            others -= value.count;
        }
        return found - std::lgamma((double)others + 1);
    }

    // The logarithm of the number of ways to divide the rows into sets of the sizes of the values.
    // For values that are all different there is one way, which is no evidence.
    double divisions(int64_t n) const {
        double found = orders(n);
        std::vector<int64_t> sizes;
        for (const Value &value : values)
            sizes.push_back(value.count);
        std::sort(sizes.begin(), sizes.end());
        for (size_t i = 0, same = 1; i < sizes.size(); i++, same++) {
            if (i + 1 < sizes.size() && sizes[i + 1] == sizes[i])
                continue;
            found -= std::lgamma((double)same + 1);
            same = 0;
        }
        return found;
    }

private:
    void add(Row row, int64_t times) {
        const double label = row.label();
        if (!low.segment || label < low.label())
            low = row;
        if (!high.segment || label > high.label())
            high = row;
        for (Value &value : values)
            if (value.row.label() == label) {
                value.count += times;
                return;
            }
        if (values.size() < MOST_VALUES)
            values.push_back({row, times});
        else
            few = false;
    }
};

// A feature that may be a + b times the label; it is in the two rows where it was found.
struct Candidate {
    int32_t feature;
    bool copy;     // whether it equals the label in these
    bool is_exact; // whether sums of it are rounded by little relative to the spread of the labels
    double x, slope, largest;
};

// Features of rows, some at a time: those of the candidates.
template <class T> class Features {
    const tusk_group &group_;
    std::vector<int32_t> ids_; // of sparse rows, rising
    std::vector<double> values_;

public:
    explicit Features(const tusk_group &group) : group_(group) {}

    // All features in which these rows may differ.
    std::vector<int32_t> of(const std::vector<Row> &rows) {
        if (!tusk_is_sparse(group_.kind)) {
            std::vector<int32_t> all(group_.dim);
            for (int32_t j = 0; j < group_.dim; j++)
                all[j] = j;
            return all;
        }
        ids_.clear();
        for (Row row : rows) {
            const uint32_t *start = tusk_row_starts(row.segment);
            const int32_t *index = tusk_indices(row.segment);
            ids_.insert(ids_.end(), index + start[row.at], index + start[row.at + 1]);
        }
        std::sort(ids_.begin(), ids_.end());
        ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
        values_.resize(ids_.size());
        return ids_;
    }
    // Moves to a row; then at(j) is its feature j, of those from `of`.
    void read(Row row) {
        if (!tusk_is_sparse(group_.kind)) {
            dense_ = (const T *)tusk_dense_values(row.segment) + (size_t)row.at * group_.dim;
            return;
        }
        const uint32_t *start = tusk_row_starts(row.segment);
        const int32_t *index = tusk_indices(row.segment);
        const T *value = (const T *)tusk_sparse_values(row.segment);
        std::fill(values_.begin(), values_.end(), 0.0);
        for (uint32_t k = start[row.at]; k < start[row.at + 1]; k++)
            if (size_t i = place(index[k]); i < ids_.size() && ids_[i] == index[k])
                values_[i] += value[k];
    }
    double at(int32_t j) const { return dense_ ? dense_[j] : values_[place(j)]; }

private:
    size_t place(int32_t j) const {
        return (size_t)(std::lower_bound(ids_.begin(), ids_.end(), j) - ids_.begin());
    }
    const T *dense_ = nullptr;
};

// The first feature that is a + b times label_of(label) in all rows, and in each of low and high;
// -1: there is none. Requires two features, unless it is the label itself.
template <class T, class Label>
int32_t first_copy(const tusk_group &group, Row low, Row high, Label label_of) {
    const double least = label_of(low.label()), most = label_of(high.label());
    Features<T> features(group);
    std::vector<Candidate> left;
    std::vector<double> at_low;
    const std::vector<int32_t> ids = features.of({low, high});
    features.read(low);
    for (int32_t j : ids)
        at_low.push_back(features.at(j));
    features.read(high);
    const double rounding = 16 * std::numeric_limits<double>::epsilon();
    const double of_labels = rounding * std::max(std::fabs(least), std::fabs(most));
    const double most_rounded = MOST_ROUNDED * (most - least);
    for (size_t i = 0; i < ids.size(); i++) {
        const double x = at_low[i], other = features.at(ids[i]);
        const double slope = (most - least) / (other - x);
        const bool copy = (T)x == (T)least && (T)other == (T)most;
        const double largest = std::max(std::fabs(x), std::fabs(other));
        const bool is_exact =
            rounding * std::fabs(slope) * largest < most_rounded && of_labels < most_rounded;
        if (x != other && (copy || (group.dim > 1 && is_exact)))
            left.push_back({ids[i], copy, is_exact, x, slope, largest});
    }
    const double cast = (double)std::numeric_limits<float>::epsilon();
    for (const tusk_segment *s : SegmentsOf(group))
        for (uint32_t row = 0; row < s->n_rows && !left.empty(); row++) {
            const double y = label_of(tusk_labels(s)[row]);
            features.read({s, row});
            std::erase_if(left, [&](const Candidate &c) {
                const double x = features.at(c.feature);
                if (c.copy && (T)x == (T)y)
                    return false;
                const double size = std::fabs(c.slope) * std::max(c.largest, std::fabs(x));
                const double allowed = std::max(rounding * size + of_labels,
                                                std::min(cast * size, MOST_CAST * (most - least)));
                return !c.is_exact || !(std::fabs(least + c.slope * (x - c.x) - y) <= allowed);
            });
        }
    return left.empty() ? -1 : left[0].feature;
}

// The first of the features that identify all values of a label but one, each by two numbers.
template <class T> int32_t first_level(const tusk_group &group, const LabelsSeen &seen) {
    int32_t first = -1;
    int missing = 0;
    for (const auto &value : seen.values) {
        const double label = value.row.label();
        const Row other = seen.low.label() == label ? seen.high : seen.low;
        const int32_t found = first_copy<T>(group, other, value.row,
                                            [&](double y) { return y == label ? 1.0 : 0.0; });
        first = first < 0 ? found : first;
        missing += found < 0;
        if (missing > 1)
            return -1;
    }
    return first;
}

// The first feature that has a distinct value for each value of the label; -1: there is none.
template <class T> int32_t first_code(const tusk_group &group, const LabelsSeen &seen) {
    struct Code {
        int32_t feature;
        std::vector<T> of; // each value
    };
    std::vector<Row> rows;
    for (const auto &value : seen.values)
        rows.push_back(value.row);
    Features<T> features(group);
    std::vector<Code> left;
    for (int32_t j : features.of(rows))
        left.push_back({j, {}});
    for (Row row : rows) {
        features.read(row);
        std::erase_if(left, [&](Code &c) {
            const T x = (T)features.at(c.feature);
            const bool taken = std::find(c.of.begin(), c.of.end(), x) != c.of.end();
            c.of.push_back(x);
            return taken || x != x;
        });
    }
    for (const tusk_segment *s : SegmentsOf(group))
        for (uint32_t row = 0; row < s->n_rows && !left.empty(); row++) {
            size_t k = 0;
            while (rows[k].label() != tusk_labels(s)[row])
                k++;
            features.read({s, row});
            std::erase_if(left,
                          [&](const Code &c) { return (T)features.at(c.feature) != c.of[k]; });
        }
    return left.empty() ? -1 : left[0].feature;
}

template <class T> int32_t first_leak(const tusk_group &group) {
    const LabelsSeen seen(group);
    const double least = std::log((double)std::max(group.dim, 1)) - std::log(BY_CHANCE);
    const int64_t n = tusk_rows_given(&group);
    if (seen.low.label() == seen.high.label() || seen.orders(n) < least)
        return 0;
    int32_t found = first_copy<T>(group, seen.low, seen.high, [](double y) { return y; });
    if (found < 0 && seen.few && seen.values.size() > 2 && group.dim > 1 &&
        seen.divisions(n) >= least) {
        found = first_code<T>(group, seen);
        found = found < 0 ? first_level<T>(group, seen) : found;
    }
    return found + 1;
}

int leaks(const tk_pass *pass, int64_t least, int32_t *out) {
    return for_each_group(pass, [&](int64_t g, int) {
        const tusk_group &group = pass->groups[g];
        bool looks = group.kind != TUSK_IDS && !group.wide && tusk_rows_given(&group) >= least;
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
