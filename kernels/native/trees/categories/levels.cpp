// Finds the levels of categories, and the bin of each value.
#include "levels.hpp"

#include <algorithm>

#include "../../shared/segments.hpp"

namespace tusk {
namespace {

constexpr double NO_LEVEL = -1;

bool is_level(double x) {
    return x >= 0 && x <= TK_MOST_LEVEL && x == (double)(int32_t)x;
}

struct Counted {
    size_t rows;
    double level;
};

std::vector<double> most_frequent(std::vector<Counted> &&found, int most) {
    if (found.size() > (size_t)most) {
        std::stable_sort(found.begin(), found.end(),
                         [](const Counted &a, const Counted &b) { return a.rows > b.rows; });
        found.resize((size_t)most);
    }
    std::vector<double> out;
    for (const Counted &one : found)
        out.push_back(one.level + 0.0); // converts -0 to 0
    std::sort(out.begin(), out.end());
    return out.empty() ? std::vector<double>{NO_LEVEL} : out;
}

// Calls body(feature) for each category.
template <class Body> void each_category(const uint8_t *by_level, int32_t d, Body &&body) {
    for (int32_t f = 0; f < d; f++)
        if (by_level[f])
            body(f);
}

template <class T> bool are_levels_in(const tusk_segment *s, const uint8_t *by_level, int32_t d) {
    const T *x = (const T *)tusk_dense_values(s);
    bool all = true;
    each_category(by_level, d, [&](int32_t f) {
        for (uint32_t i = 0; i < s->n_rows; i++) {
            double value = (double)x[(size_t)i * d + f];
            all &= value != value || is_level(value);
        }
    });
    return all;
}

// The code of each level up to the greatest one that has a bin, and then that of all others.
std::vector<uint8_t> codes_of(const double *level, const double *end) {
    const bool known = level < end && end[-1] > NO_LEVEL;
    std::vector<uint8_t> codes(known ? (size_t)end[-1] + 2 : 1, (uint8_t)(end - level));
    for (const double *at = level; known && at < end; at++)
        codes[(size_t)*at] = (uint8_t)(at - level);
    return codes;
}

template <class T> void code(const tusk_segment *s, const Bins &bins, uint8_t *out) {
    int32_t d = bins.features();
    const T *x = (const T *)tusk_dense_values(s);
    each_category(bins.by_level.data(), d, [&](int32_t f) {
        const double *level = bins.bound.data() + bins.first[f];
        std::vector<uint8_t> codes = codes_of(level, level + bins.values(f));
        double other = (double)codes.size() - 1;
        for (uint32_t i = 0; i < s->n_rows; i++) {
            double value = (double)x[(size_t)i * d + f]; // NaN equals no level
            bool known = value >= 0 && value < other && value == (double)(int32_t)value;
            out[(size_t)i * d + f] = codes[(size_t)(known ? value : other)];
        }
    });
}

} // namespace

template <class T> std::vector<double> levels_of(std::vector<T> &values, int most) {
    std::sort(values.begin(), values.end());
    std::vector<Counted> found;
    for (size_t i = 0, end; i < values.size(); i = end) {
        for (end = i + 1; end < values.size() && values[end] == values[i];)
            end++;
        if (is_level((double)values[i]))
            found.push_back({end - i, (double)values[i]});
    }
    return most_frequent(std::move(found), most);
}

template std::vector<double> levels_of(std::vector<float> &values, int most);
template std::vector<double> levels_of(std::vector<double> &values, int most);

std::vector<size_t> level_counts(const tusk_group &group, int32_t feature) {
    std::vector<size_t> rows(TK_MOST_LEVEL + 1);
    auto count = [&](const auto *x, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
            if (auto value = (double)x[(size_t)i * group.dim + feature]; is_level(value))
                rows[(size_t)value]++;
    };
    for (const tusk_segment *s : SegmentsOf(group))
        if (group.kind == TUSK_DENSE_F64)
            count((const double *)tusk_dense_values(s), s->n_rows);
        else
            count((const float *)tusk_dense_values(s), s->n_rows);
    return rows;
}

std::vector<double> frequent_levels(const std::vector<size_t> &rows, int most) {
    std::vector<Counted> found;
    for (size_t level = 0; level < rows.size(); level++)
        if (rows[level])
            found.push_back({rows[level], (double)level});
    return most_frequent(std::move(found), most);
}

std::vector<double> levels_in(const tusk_group &group, int32_t feature, int most) {
    return frequent_levels(level_counts(group, feature), most);
}

bool are_levels(const tusk_group &group, const uint8_t *by_level) {
    bool all = true;
    for (const tusk_segment *s : SegmentsOf(group))
        all = all && (group.kind == TUSK_DENSE_F64 ? are_levels_in<double>(s, by_level, group.dim)
                                                   : are_levels_in<float>(s, by_level, group.dim));
    return all;
}

void code_levels(const tusk_segment *segment, int32_t kind, const Bins &bins, uint8_t *out) {
    if (bins.by_level.empty())
        return;
    kind == TUSK_DENSE_F64 ? code<double>(segment, bins, out) : code<float>(segment, bins, out);
}

} // namespace tusk
