// Finds splits.
#include "split.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "../shared/simd.hpp"

namespace tusk {

double Rule::shrunk(double gradient) const {
    double size = std::fabs(gradient) - boost->l1;
    return size > 0 ? std::copysign(size, gradient) : 0;
}

double Rule::score(double gradient, double curvature) const {
    double g = boost->l1 ? shrunk(gradient) : gradient, h = curvature + boost->l2;
    return h > 0 ? g * g / h : 0;
}

double Rule::value(const Sum &s, const Limits &limits) const {
    double h = curvature(s) + boost->l2 + limits.l2;
    return std::clamp(h > 0 ? -shrunk(gradient(s)) / h : 0, limits.low, limits.high);
}

namespace {

using Features = std::vector<int32_t>;

// Sums over the bins 0 .. b of several features, for each b. They are taken of many bins before
// they are looked at: vectors that are loaded right behind the scalar stores would wait for them.
struct Prefixes {
    static constexpr int32_t ROOM = 1024, LONGEST = TK_MOST_BINS + 1 + LANES;
    // The sums of one feature: where they are, how many are candidates, and the first one's
    // number.
    struct Part {
        int32_t at, n;
        int64_t first;
    };
    int64_t gradient[ROOM], curvature[ROOM], rows[ROOM];
    Part parts[ROOM / LANES];
    int32_t used = 0, n_parts = 0;

    bool full() const { return used + LONGEST > ROOM; }

    template <class Cell> void take(const Cell *bins, int32_t n, const Sum &start, int64_t first) {
        parts[n_parts++] = {used, n, first};
        take_sums(bins, n, start);
        int32_t end = used + n;
        for (used = end; used % LANES; used++)
            gradient[used] = curvature[used] = rows[used] = 0;
    }

private:
    void take_sums(const Sum *bins, int32_t n, Sum sum) {
        for (int32_t b = 0; b < n; b++) {
            sum += bins[b];
            gradient[used + b] = sum.gradient;
            curvature[used + b] = sum.curvature, rows[used + b] = sum.rows;
        }
    }
    // Both halves of a cell are added at once, and taken apart in a loop of vectors.
    void take_sums(const Addend *bins, int32_t n, const Sum &start) {
        Addend sum{start.gradient, start.rows << COUNT_SHIFT | start.curvature};
        for (int32_t b = 0; b < n; b++) {
            sum += bins[b];
            gradient[used + b] = sum[0], rows[used + b] = sum[1];
        }
    }
};

inline v8i integers(const int64_t *at) {
    v8i v;
    std::memcpy(&v, at, sizeof v);
    return v;
}
inline v8d number_of(v8i v) {
    return __builtin_convertvector(v, v8d);
}

int32_t feature_of(const Bins &bins, int64_t candidate) {
    auto above = std::upper_bound(bins.first.begin(), bins.first.end(), (int32_t)(candidate / 2));
    return (int32_t)(above - bins.first.begin()) - 1;
}

// The best candidates of each lane. A candidate's number is twice that of its bin, and one more if
// missing values go left.
struct Best {
    v8d gain;
    v8i candidate{-1, -1, -1, -1, -1, -1, -1, -1};

    explicit Best(double least) : gain(splat(least)) {}

    // The first candidate of the largest gain; -1: there is none.
    int64_t pick(double *of) const {
        int64_t found = -1;
        for (int lane = 0; lane < LANES; lane++) {
            int64_t c = candidate[lane];
            if (c < 0 || (found >= 0 && (gain[lane] < *of || (gain[lane] == *of && c > found))))
                continue;
            found = c, *of = gain[lane];
        }
        return found;
    }
};

// What rounding may leave of a gain of 0, as a fraction of the leaf's score. Without this limit, a
// leaf whose rows are all alike would be split.
constexpr double NOISE = 1e-12;

// Gains of splits of one leaf.
class Search {
public:
    Search(const Rule &rule, const Sum &leaf)
        : unit_(rule.units), l1_(rule.boost->l1), l2_(rule.boost->l2),
          gradient_(rule.gradient(leaf)), curvature_(rule.curvature(leaf)),
          rows_((double)leaf.rows), least_rows_((double)rule.boost->min_child_rows),
          least_curvature_(std::max(rule.boost->min_child_hessian, 1e-300)),
          parent_(rule.score(gradient_, curvature_)),
          best_(std::max(rule.boost->min_gain, NOISE * parent_)) {}

    template <class Cell> void look(Prefixes &left) {
        for (int32_t i = 0; i < left.n_parts; i++)
            look_at<Cell>(left, left.parts[i].at, left.parts[i].n, left.parts[i].first);
        left.used = left.n_parts = 0;
    }
    const Best &best() const { return best_; }

private:
    // Numbers of candidates begin at `first`, in steps of two.
    template <class Cell>
    void look_at(const Prefixes &left, int32_t at, int32_t n, int64_t first) {
        constexpr bool NARROW = std::is_same_v<Cell, Addend>;
        constexpr int64_t LOW = (INT64_C(1) << COUNT_SHIFT) - 1;
        v8i number = v8i{0, 2, 4, 6, 8, 10, 12, 14} + first;
        v8i end = v8i{} + (first + 2 * (int64_t)n);
        for (int32_t b = 0; b < n; b += LANES, number += 2 * LANES) {
            v8i rows = integers(left.rows + at + b);
            v8i curvature = NARROW ? rows & LOW : integers(left.curvature + at + b);
            v8d gl = number_of(integers(left.gradient + at + b)) * unit_.gradient;
            v8d hl = number_of(curvature) * unit_.curvature;
            v8d nl = number_of(NARROW ? rows >> COUNT_SHIFT : rows);
            v8d gr = gradient_ - gl, hr = curvature_ - hl, nr = rows_ - nl;
            Mask<v8d> fits = (number < end) & (nl >= least_rows_) & (nr >= least_rows_) &
                             (hl >= least_curvature_) & (hr >= least_curvature_);
            v8d gain = gains(gl, hl + l2_, gr, hr + l2_) - parent_;
            Mask<v8d> better = fits & (gain > best_.gain);
            best_.gain = select<v8d>(better, gain, best_.gain);
            best_.candidate = better ? number : best_.candidate;
        }
    }

    v8d shrunk(v8d g) const {
        v8d size = vmax(vabs(g) - l1_, v8d{});
        return size; // squared by the caller, so the sign does not matter
    }
    // gl^2 / hl + gr^2 / hr by one division.
    v8d gains(v8d gl, v8d hl, v8d gr, v8d hr) const {
        if (l1_ != 0)
            gl = shrunk(gl), gr = shrunk(gr);
        v8d inverse = 1.0 / (hl * hr);
        return gl * gl * (hr * inverse) + gr * gr * (hl * inverse);
    }

    Units unit_;
    double l1_, l2_, gradient_, curvature_, rows_, least_rows_, least_curvature_, parent_;
    Best best_;
};

template <class Cell> Sum sum_to(const Cell *bins, int32_t last) {
    Sum sum{0, 0, 0};
    for (int32_t b = 0; b <= last; b++)
        sum += sum_of(bins[b]);
    return sum;
}

// The split that a candidate stands for.
template <class Cell>
Split split_of(int64_t candidate, double gain, const Bins &bins, const Cell *histogram,
               const Sum &leaf) {
    auto bin = (int32_t)(candidate / 2);
    int32_t f = feature_of(bins, candidate);
    const Cell *of_feature = histogram + bins.first[f];
    Split found{gain, f, bin - bins.first[f], candidate % 2 == 1, {}};
    found.left = sum_to(of_feature, found.bin);
    Sum missing = bins.missing[f] ? sum_of(of_feature[bins.values(f)]) : Sum{0, 0, 0};
    if (found.missing_left)
        found.left += missing;
    if (!missing.rows)
        found.missing_left = 2 * found.left.rows >= leaf.rows;
    return found;
}

template <class Cell>
Split best_of(const Rule &rule, const Bins &bins, const Cell *histogram, const Sum &leaf,
              const Features &features) {
    Search search(rule, leaf);
    Prefixes left;
    for (int32_t f : features) {
        const Cell *of_feature = histogram + bins.first[f];
        int32_t n = bins.values(f);
        int64_t first = 2 * (int64_t)bins.first[f];
        Sum missing = bins.missing[f] ? sum_of(of_feature[n]) : Sum{0, 0, 0};
        left.take(of_feature, missing.rows ? n : n - 1, Sum{0, 0, 0}, first);
        if (left.full())
            search.template look<Cell>(left);
        if (missing.rows)
            left.take(of_feature, n - 1, missing, first + 1);
        if (left.full())
            search.template look<Cell>(left);
    }
    search.template look<Cell>(left);
    double gain = 0;
    int64_t candidate = search.best().pick(&gain);
    return candidate < 0 ? Split{} : split_of(candidate, gain, bins, histogram, leaf);
}

} // namespace

Split best_split(const Rule &rule, const Bins &bins, const Sum *histogram, const Sum &leaf,
                 const Features &features) {
    return best_of(rule, bins, histogram, leaf, features);
}

Split best_split(const Rule &rule, const Bins &bins, const Addend *histogram, const Sum &leaf,
                 const Features &features) {
    return best_of(rule, bins, histogram, leaf, features);
}

} // namespace tusk
