// Statistics of the rows that a trainer needs before it plans: classes, means and scales.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "../linear/links.hpp"
#include "../linear/sparse.hpp"
#include "../shared/common/exact_sum.hpp"
#include "api.h"

namespace tusk {
namespace {

struct Moments {
    double n = 0, mean = 0, m2 = 0;

    // Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm, 1979.
    void merge(const Moments &o) {
        if (o.n == 0)
            return;
        double total = n + o.n, delta = o.mean - mean;
        mean += delta * o.n / total;
        m2 += o.m2 + delta * delta * n * o.n / total;
        n = total;
    }
};

Moments weighted_moments(const double *y, const double *weight, uint32_t n) {
    Moments out;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        out.n += weight[i];
        sum += weight[i] * y[i];
    }
    out.mean = sum / out.n;
    for (uint32_t i = 0; i < n; i++)
        out.m2 += weight[i] * (y[i] - out.mean) * (y[i] - out.mean);
    return out;
}

Moments moments_of(const double *y, uint32_t n) {
    Moments out;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += y[i];
    out.n = n;
    out.mean = sum / n;
    for (uint32_t i = 0; i < n; i++)
        out.m2 += (y[i] - out.mean) * (y[i] - out.mean);
    return out;
}

// The weighted mean of exp(offset), 1 if rows have no offsets.
double mean_exposure(const tusk_group &group, double weight) {
    if (!(group.extras & TUSK_OFFSETS))
        return 1;
    const tusk_shape shape = tusk_shape_of(&group);
    double total = 0;
    for (const tusk_segment *s : SegmentsOf(group)) {
        const Targets all = targets_of(s, shape);
        for (uint32_t at = 0; at < s->n_rows; at += LANES) {
            const int n = (int)std::min<uint32_t>(LANES, s->n_rows - at);
            const Targets t = all.from(at);
            double exposure[LANES] = {0};
            std::copy_n(t.offset, n, exposure);
            store(exposure, exp_of(load(exposure)));
            for (int i = 0; i < n; i++)
                total += t.weight ? t.weight[i] * exposure[i] : exposure[i];
        }
    }
    return total / weight;
}

tk_label_stats numeric_labels(const tusk_group &group) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    tk_label_stats out{};
    out.low = infinity;
    out.high = -infinity;
    out.n_rows = group.n_rows;
    Moments all;
    const tusk_shape shape = tusk_shape_of(&group);
    for (const tusk_segment *s : SegmentsOf(group)) {
        if (!s->n_rows)
            continue;
        const double *y = tusk_labels(s);
        for (uint32_t i = 0; i < s->n_rows; i++) {
            out.low = std::min(out.low, y[i]);
            out.high = std::max(out.high, y[i]);
        }
        const double *weight = tusk_extra(s, shape, TUSK_WEIGHTS);
        all.merge(weight ? weighted_moments(y, weight, s->n_rows) : moments_of(y, s->n_rows));
    }
    out.mean = all.mean;
    out.weight = all.n;
    out.variance = all.n ? all.m2 / all.n : 0;
    if (out.low == out.high &&
        !std::isfinite(out.variance)) { // equal labels so large that squares overflow
        out.mean = out.low;
        out.variance = 0;
    }
    out.exposure = mean_exposure(group, out.weight);
    return out;
}

// Finds the first row whose label is below the loss's limit, as the third one.
void find_too_low(const tusk_group &group, LeastLabel least, tk_label_stats *out) {
    if (out->low > least.value || (least.allowed && out->low == least.value) || !group.n_rows)
        return;
    int64_t row = 0;
    for (const tusk_segment *s : SegmentsOf(group))
        for (uint32_t i = 0; i < s->n_rows; i++) {
            double y = tusk_labels(s)[i];
            row++;
            if (y < least.value || (!least.allowed && y == least.value)) {
                out->third_row = row;
                out->third = y;
                return;
            }
        }
}

// Counts the second class, or finds the first row that is in neither.
struct TwoClasses {
    double first, second;
    bool seen_second = false;
    int64_t n_second = 0, rows = 0;

    int64_t third_in(const tusk_segment *s, double *value) {
        const double *y = tusk_labels(s);
        for (uint32_t at = 0; at < s->n_rows; at += BLOCK_ROWS) {
            int n = (int)std::min<uint32_t>(BLOCK_ROWS, s->n_rows - at);
            int64_t third = all_known(y + at, n) ? 0 : third_among(y + at, n, value);
            if (third)
                return rows + third;
            rows += n;
        }
        return 0;
    }

private:
    // Has no branches: for labels in random order, half of them would be mispredicted.
    bool all_known(const double *y, int n) {
        int of_first = 0, of_second = 0;
        for (int i = 0; i < n; i++) {
            of_first += y[i] == first;
            of_second += y[i] == second;
        }
        bool known = of_first + (seen_second ? of_second : 0) == n;
        n_second += known ? n - of_first : 0;
        return known;
    }

    // The 1-based number of the first row of a third class, or 0.
    int64_t third_among(const double *y, int n, double *value) {
        for (int i = 0; i < n; i++) {
            if (y[i] == first)
                continue;
            if (!seen_second) {
                second = y[i];
                seen_second = true;
            } else if (y[i] != second) {
                *value = y[i];
                return i + 1;
            }
            n_second++;
        }
        return 0;
    }
};

// The weights of all rows and of those with the label `high`.
void weigh(const tusk_group &group, tk_label_stats *out) {
    out->weight = (double)out->n_rows;
    out->weight_high = (double)out->n_high;
    if (!(group.extras & TUSK_WEIGHTS))
        return;
    ExactSum all, high; // since these rows have no fixed order yet
    for (const tusk_segment *s : SegmentsOf(group)) {
        const double *weight = tusk_extra(s, tusk_shape_of(&group), TUSK_WEIGHTS);
        for (uint32_t i = 0; i < s->n_rows; i++)
            (tusk_labels(s)[i] == out->high ? high : all).add(weight[i]);
    }
    out->weight_high = high.value();
    all.add(high);
    out->weight = all.value();
}

tk_label_stats class_labels(const tusk_group &group) {
    tk_label_stats out{};
    out.exposure = 1;
    out.n_rows = group.n_rows;
    if (!group.n_rows)
        return out;
    const tusk_segment *first = group.head;
    while (!first->n_rows)
        first = first->next;
    TwoClasses classes{tusk_labels(first)[0], tusk_labels(first)[0]};
    for (const tusk_segment *s : SegmentsOf(group)) {
        out.third_row = classes.third_in(s, &out.third);
        if (out.third_row)
            break;
    }
    bool ascending = classes.first <= classes.second;
    out.low = ascending ? classes.first : classes.second;
    out.high = ascending ? classes.second : classes.first;
    if (!classes.seen_second)
        out.n_high = group.n_rows;
    else
        out.n_high = ascending ? classes.n_second : group.n_rows - classes.n_second;
    weigh(group, &out);
    return out;
}

// Sums of x - origin and of its squares. The origin is the first row, so that a large offset does
// not cancel the spread.
template <class T> struct ColumnSums {
    int64_t d;
    std::vector<double> origin, sum, square, reach; // reach: the largest |x - first row|
    double n = 0;                                   // the sum of the weights

    explicit ColumnSums(int64_t width)
        : d(width), origin(width), sum(width), square(width), reach(width) {}

    void add(const T *x, double weight) {
        if (n == 0)
            for (int64_t k = 0; k < d; k++)
                origin[k] = (double)x[k];
        for (int64_t k = 0; k < d; k++) {
            double v = (double)x[k] - origin[k];
            sum[k] += weight * v;
            square[k] += weight * v * v;
            reach[k] = std::max(reach[k], std::fabs(v));
        }
        n += weight;
    }

    // Whether a column varies, but its squares overflow or underflow.
    bool lost(int64_t k) const {
        return reach[k] > 0 && (square[k] < 1e-280 || !std::isfinite(square[k]));
    }

    // Returns whether some feature was constant.
    bool finish(double *mean, double *deviation) const {
        bool constant = false;
        for (int64_t k = 0; k < d; k++) {
            mean[k] = origin[k] + sum[k] / n;
            double variance = square[k] / n - (sum[k] / n) * (sum[k] / n);
            deviation[k] = square[k] > 0 ? std::sqrt(std::max(variance, 1e-300)) : 0;
            constant |= reach[k] == 0;
        }
        return constant;
    }
};

// Calls visit(x, weight) for every step-th row.
template <class T, class Visit>
void each_row(const tusk_group &group, int64_t step, const Visit &visit) {
    int64_t next = 0;
    for (const tusk_segment *s : SegmentsOf(group)) {
        const double *weight = tusk_extra(s, tusk_shape_of(&group), TUSK_WEIGHTS);
        for (; next < s->n_rows; next += step)
            visit((const T *)tusk_dense_values(s) + next * group.dim, weight ? weight[next] : 1);
        next -= s->n_rows;
    }
}

// Mean and deviation of a column whose squares overflow or underflow. Scales the column to about 1
// by a power of two. Finds that power from halved values, since even a difference may overflow.
template <class T>
void scaled_moments(const tusk_group &group, int64_t step, int64_t k, const ColumnSums<T> &sums,
                    double *mean, double *deviation) {
    double half = sums.origin[k] / 2, reach = 0;
    each_row<T>(group, step, [&](const T *x, double) {
        reach = std::max(reach, std::fabs((double)x[k] / 2 - half));
    });
    if (!(reach > 0)) // values so small that their halves are 0
        return;
    int power = std::ilogb(reach) + 1;
    double origin = std::scalbn(sums.origin[k], -power), sum = 0, square = 0;
    each_row<T>(group, step, [&](const T *x, double weight) {
        double v = std::scalbn((double)x[k], -power) - origin;
        sum += weight * v;
        square += weight * v * v;
    });
    double centre = sum / sums.n;
    *mean = std::scalbn(origin + centre, power);
    *deviation = std::scalbn(std::sqrt(std::max(square / sums.n - centre * centre, 0.0)), power);
}

template <class T>
bool sample_moments(const tusk_group &group, int64_t step, double *mean, double *deviation) {
    ColumnSums<T> sums(group.dim);
    each_row<T>(group, step, [&](const T *x, double weight) { sums.add(x, weight); });
    bool constant = sums.finish(mean, deviation);
    for (int64_t k = 0; k < group.dim; k++)
        if (sums.lost(k))
            scaled_moments<T>(group, step, k, sums, mean + k, deviation + k);
    return constant;
}

// Where most values of features lie, from rows x of a group.
template <class T> struct Bulk {
    const std::vector<const T *> &rows;
    std::vector<T> values;

    explicit Bulk(const std::vector<const T *> &all) : rows(all), values(all.size()) {}

    // The median of feature k, and the distance between its quartiles, of at least 4 rows.
    std::pair<double, double> quartiles(int64_t k) {
        const auto n = (int64_t)rows.size();
        for (int64_t i = 0; i < n; i++)
            values[(size_t)i] = rows[(size_t)i][k];
        std::sort(values.begin(), values.end());
        return {(double)values[(size_t)(n / 2)],
                (double)values[(size_t)(n - 1 - n / 4)] - (double)values[(size_t)(n / 4)]};
    }

    // The root mean square distance from the centre, of the rows within a distance of it.
    double spread(int64_t k, double centre, double within) const {
        double square = 0;
        int64_t n = 0;
        for (const T *x : rows) {
            const double v = (double)x[k] - centre;
            const bool near = std::fabs(v) <= within;
            square += near ? v * v : 0;
            n += near;
        }
        return n ? std::sqrt(square / (double)n) : 0;
    }
};

constexpr int64_t FEW_ROWS = 9, // show that a feature's values are not crowded
    MANY_ROWS = 512;

// Rows of a group at equal distances, `most` or up to twice as many.
template <class T> std::vector<const T *> some_rows(const tusk_group &group, int64_t most) {
    std::vector<const T *> found;
    each_row<T>(group, std::max<int64_t>(1, group.n_rows / most),
                [&](const T *x, double) { found.push_back(x); });
    return found;
}

// The spread of crowded features around their median, 0 for others.
template <class T>
void find_crowded(const tusk_group &group, double share, const double *deviation, double *centre,
                  double *spread) {
    std::fill_n(centre, group.dim, 0.0);
    std::fill_n(spread, group.dim, 0.0);
    const std::vector<const T *> few = some_rows<T>(group, FEW_ROWS);
    if (few.size() < 4)
        return;
    Bulk<T> glance(few);
    std::vector<const T *> many;
    for (int64_t k = 0; k < group.dim; k++) {
        const double most = share * deviation[k];
        if (!(most > 0) || glance.quartiles(k).second > most)
            continue;
        if (many.empty())
            many = some_rows<T>(group, MANY_ROWS);
        Bulk<T> look(many);
        const auto [median, distance] = look.quartiles(k);
        const double found = look.spread(k, median, most);
        if (distance <= most && found > 0) {
            centre[k] = median;
            spread[k] = found;
        }
    }
}

} // namespace
} // namespace tusk

int tk_labels(const tk_pass *pass, tk_label_stats *out) {
    return tusk::code_of([&] {
        auto kind = (tusk::LossKind)pass->loss;
        bool numeric = !tusk::has_classes(kind);
        tusk::parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
            out[g] = numeric ? tusk::numeric_labels(pass->groups[g])
                             : tusk::class_labels(pass->groups[g]);
            if (numeric)
                tusk::find_too_low(pass->groups[g], tusk::least_of(kind), out + g);
        });
        return TK_OK;
    });
}

int tk_feature_moments(const tk_pass *pass, int64_t sample, double *mean, double *deviation) {
    using namespace tusk;
    return code_of([&] {
        int64_t d = pass->groups[0].dim;
        return with_storage(pass, [&]<class T>(const T *) {
            parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
                const tusk_group &group = pass->groups[g];
                int64_t step = std::max<int64_t>(1, group.n_rows / sample);
                // A feature that is constant in the sample may still vary in rare rows, so read
                // every row before it counts as constant.
                if (sample_moments<T>(group, step, mean + g * d, deviation + g * d) && step > 1)
                    sample_moments<T>(group, 1, mean + g * d, deviation + g * d);
            });
            return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
        });
    });
}

int tk_crowded_features(const tk_pass *pass, double share, const double *deviation, double *centre,
                        double *spread) {
    using namespace tusk;
    return code_of([&] {
        int64_t d = pass->groups[0].dim;
        return with_storage(pass, [&]<class T>(const T *) {
            parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
                find_crowded<T>(pass->groups[g], share, deviation + g * d, centre + g * d,
                                spread + g * d);
            });
            return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
        });
    });
}
