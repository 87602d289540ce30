// Finds splits.
#include "split.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../shared/simd.hpp"

namespace tusk {

tk_boost scaled(const tk_boost &boost, double scale) {
    tk_boost own = boost;
    for (double *one : {&own.l1, &own.l2, &own.cat_l2, &own.min_child_hessian, &own.min_gain})
        *one /= scale;
    return own;
}

double Rule::shrunk(double gradient) const {
    double size = std::fabs(gradient) - boost->l1;
    return size > 0 ? std::copysign(size, gradient) : 0;
}

double Rule::least_curvature(const Sum &leaf) const {
    if (boost->averaged)
        return boost->min_child_hessian;
    double share = ((double)boost->min_child_rows - 0.5) / (double)std::max<int64_t>(leaf.rows, 1);
    return std::max(boost->min_child_hessian, share * curvature(leaf));
}

double Rule::score(double gradient, double curvature) const {
    double g = boost->l1 ? shrunk(gradient) : gradient, h = curvature + boost->l2;
    return h > 0 ? g * (g / h) : 0; // squares of tiny weights would vanish
}

double Rule::value(const Sum &s, const Limits &limits) const {
    double h = curvature(s) + boost->l2 + limits.l2;
    return std::clamp(h > 0 ? -shrunk(gradient(s)) / h : 0, limits.low, limits.high);
}

int32_t last_of_left(const tk_boost &boost, const Bins &bins, int32_t f, int32_t last,
                     int32_t next) {
    if (!boost.averaged || next >= bins.values(f))
        return last;
    const double *bound = bins.bound.data() + bins.first[f];
    double middle = bound[last] + (bound[next - 1] - bound[last]) / 2;
    const double *above = std::lower_bound(bound + last, bound + next - 1, middle);
    auto bin = (int32_t)(above - bound);
    double below = bin > last ? middle - bound[bin - 1] : HUGE_VAL, over = bound[bin] - middle;
    return below < over || (below == over && last % 2) ? bin - 1 : bin; // ties go either way
}

namespace {

using Features = std::vector<int32_t>;

// For a narrow cell's second word, which begins with the count of rows: the words of sums that
// leave either child its least number of rows are from `low` on and below `end`.
struct Range {
    int64_t low, end;
};

Range range_of(const Rule &rule, const Sum &leaf) {
    int64_t least = std::max<int64_t>(rule.boost->min_child_rows, 0);
    auto word = [](int64_t rows) {
        return std::clamp<int64_t>(rows, 0, BLOCK + 1) << COUNT_SHIFT;
    };
    return {word(least), word(leaf.rows - least + 1)};
}

// Sums over the bins 0 .. b of several features, for each b. They are computed for many bins
// before they are read: vectors that are loaded right after narrower stores would wait for them.
template <class Cell> struct Prefixes;

constexpr int32_t ROOM = 1024, LONGEST = TK_MOST_BINS + 1 + LANES;

template <> struct Prefixes<Sum> {
    // The sums of one feature: their address, the number of candidates, and the first one's
    // number.
    struct Part {
        int32_t at, n;
        int64_t first;
    };
    int64_t gradient[ROOM], curvature[ROOM], rows[ROOM];
    Part parts[ROOM / LANES];
    int32_t used = 0, n_parts = 0;

    bool full() const { return used + LONGEST > ROOM; }

    // Numbers of candidates begin at `first`, in steps of two.
    void take(const Sum *bins, int32_t n, Sum sum, int64_t first, const Range &) {
        parts[n_parts++] = {used, n, first};
        for (int32_t b = 0; b < n; b++) {
            sum += bins[b];
            gradient[used + b] = sum.gradient;
            curvature[used + b] = sum.curvature, rows[used + b] = sum.rows;
        }
        int32_t end = used + n;
        for (used = end; used % LANES; used++)
            gradient[used] = curvature[used] = rows[used] = 0;
    }
};

// For narrow cells both words of a sum are added at once, and separated in vectors.
template <> struct Prefixes<Addend> {
    // Eight sums: their address, the first one's number, and the number that ends the feature's.
    struct Part {
        int64_t at, first, end;
    };
    alignas(64) Addend sums[ROOM];
    Part parts[ROOM / LANES];
    int32_t used = 0, n_parts = 0;

    bool full() const { return used + LONGEST > ROOM; }

    // Leaves out parts without a candidate, where one child has too few rows. This is done without
    // a branch, which would be mispredicted for most features. Reads whole parts: data beyond the
    // feature's bins are not candidates.
    void take(const Addend *bins, int32_t n, const Sum &start, int64_t first, const Range &fits) {
        Addend sum{start.gradient, start.rows << COUNT_SHIFT | start.curvature};
        int64_t end = first + 2 * (int64_t)n;
        for (; first < end; bins += LANES, first += 2 * LANES, used += LANES) {
            Addend *out = sums + used;
#pragma GCC unroll 8
            for (int32_t b = 0; b < LANES; b++)
                out[b] = sum += bins[b];
            parts[n_parts] = {used, first, end};
            n_parts += (sum[1] >= fits.low) & (out[0][1] < fits.end);
        }
    }
};

// Candidates of features with few each, with their numbers.
struct Listed {
    int64_t gradient[ROOM], curvature[ROOM], rows[ROOM], number[ROOM];
    int32_t used = 0;

    bool full() const { return used + 2 * (MOST_FEW_ROWS + 1) > ROOM; }
    void take(const Sum &sum, int64_t candidate) {
        gradient[used] = sum.gradient, curvature[used] = sum.curvature;
        rows[used] = sum.rows, number[used] = candidate;
        used++;
    }
    // Pads with sums of no rows, which are not candidates.
    void fill_up() {
        for (; used % LANES; used++)
            gradient[used] = curvature[used] = rows[used] = number[used] = 0;
    }
};

inline v8i integers(const void *at) {
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
// missing values go left. Scores are fractions, which are compared without a division.
struct Best {
    v8d above, below;
    v8i candidate{-1, -1, -1, -1, -1, -1, -1, -1};

    explicit Best(double least) : above(splat(least)), below(splat(1)) {}

    // The first candidate of the largest score; -1: there is none.
    int64_t pick(double *score) const {
        v8d scores = select<v8d>(candidate >= 0, above / below, splat(-1));
        double most = -1;
        int64_t found = INT64_MAX;
        for (int lane = 0; lane < LANES; lane++)
            most = std::max(most, scores[lane]);
        for (int lane = 0; lane < LANES; lane++)
            found = scores[lane] == most ? std::min<int64_t>(found, candidate[lane]) : found;
        *score = most;
        return most < 0 ? -1 : found;
    }
};

// Powers of two by which gradients and curvatures are multiplied, so that those of all rows and of
// the leaf are about 1: products of several of them neither overflow nor vanish.
struct Scale {
    double gradient, curvature;

    Scale(const Rule &rule, const Sum &leaf) : gradient(0x1p-62 / rule.units.gradient) {
        int exponent = 0;
        std::frexp(rule.curvature(leaf) + rule.boost->l2, &exponent);
        curvature = std::ldexp(1.0, -exponent);
    }
    // Scale of a gain, which is a square of gradients by a curvature.
    double scaled(double gain) const { return gain * gradient * (gradient / curvature); }
    double unscaled(double gain) const { return gain / gradient * (curvature / gradient); }
};

// Gains of splits of one leaf.
class Search {
public:
    Search(const Rule &rule, const Sum &leaf)
        : range_(range_of(rule, leaf)), scale_(rule, leaf), boost_(*rule.boost),
          unit_{0x1p-62, rule.units.curvature * scale_.curvature},
          l1_(boost_.l1 * scale_.gradient), l2_(boost_.l2 * scale_.curvature),
          gradient_((double)leaf.gradient * unit_.gradient),
          curvature_((double)leaf.curvature * unit_.curvature), rows_((double)leaf.rows),
          least_rows_((double)boost_.min_child_rows),
          least_curvature_(std::max(rule.least_curvature(leaf) * scale_.curvature, 1e-300)),
          parent_(score()),
          best_(parent_ + std::max(scale_.scaled(boost_.min_gain), NOISE * parent_)) {}

    // The first candidate of the largest gain; -1: there is none.
    int64_t pick(double *gain) const {
        int64_t found = best_.pick(gain);
        *gain = scale_.unscaled(*gain - parent_);
        return *gain > 0 ? found : -1;
    }
    void look(Prefixes<Sum> &left) {
        for (int32_t i = 0; i < left.n_parts; i++)
            look_at(left, left.parts[i].at, left.parts[i].n, left.parts[i].first);
        left.used = left.n_parts = 0;
    }
    void look(Prefixes<Addend> &left) {
        for (int32_t i = 0; i < left.n_parts; i++)
            look_at(left.sums + left.parts[i].at, left.parts[i]);
        left.used = left.n_parts = 0;
    }
    void look(Listed &left) {
        left.fill_up();
        for (int32_t at = 0; at < left.used; at += LANES) {
            v8d nl = number_of(integers(left.rows + at)), nr = rows_ - nl;
            Mask<v8d> fits = (nl >= least_rows_) & (nr >= least_rows_);
            keep(integers(left.gradient + at), integers(left.curvature + at), fits,
                 integers(left.number + at));
        }
        left.used = 0;
    }
    const Range &range() const { return range_; }

private:
    void look_at(const Prefixes<Sum> &left, int32_t at, int32_t n, int64_t first) {
        v8i number = v8i{0, 2, 4, 6, 8, 10, 12, 14} + first;
        v8i end = v8i{} + (first + 2 * (int64_t)n);
        for (int32_t b = 0; b < n; b += LANES, number += 2 * LANES) {
            v8d nl = number_of(integers(left.rows + at + b)), nr = rows_ - nl;
            Mask<v8d> fits = (number < end) & (nl >= least_rows_) & (nr >= least_rows_);
            keep(integers(left.gradient + at + b), integers(left.curvature + at + b), fits,
                 number);
        }
    }

    void look_at(const Addend *sums, const Prefixes<Addend>::Part &part) {
        constexpr int64_t LOW = (INT64_C(1) << COUNT_SHIFT) - 1;
        v8i a = integers(sums), b = integers(sums + LANES / 2);
        v8i words = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
        v8i number = v8i{0, 2, 4, 6, 8, 10, 12, 14} + part.first;
        Mask<v8d> fits = (number < part.end) & (words >= range_.low) & (words < range_.end);
        keep(__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14), words & LOW, fits, number);
    }

    void keep(v8i gradient, v8i curvature, Mask<v8d> fits, v8i number) {
        v8d gl = number_of(gradient) * unit_.gradient, gr = gradient_ - gl;
        v8d hl = number_of(curvature) * unit_.curvature, hr = curvature_ - hl;
        fits &= (hl >= least_curvature_) & (hr >= least_curvature_);
        if (l1_ != 0)
            gl = shrunk(gl), gr = shrunk(gr);
        hl += l2_, hr += l2_;
        v8d above = gl * gl * hr + gr * gr * hl, below = hl * hr; // gl^2 / hl + gr^2 / hr
        Mask<v8d> better = fits & (above * best_.below > best_.above * below);
        best_.above = select<v8d>(better, above, best_.above);
        best_.below = select<v8d>(better, below, best_.below);
        best_.candidate = better ? number : best_.candidate;
    }

    // Its sign does not matter, since it is squared.
    v8d shrunk(v8d g) const { return vmax(vabs(g) - l1_, v8d{}); }
    double score() const {
        double g = std::max(std::fabs(gradient_) - l1_, 0.0), h = curvature_ + l2_;
        return h > 0 ? g * g / h : 0;
    }

    Range range_;
    Scale scale_;
    const tk_boost &boost_;
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

// The split of a candidate.
template <class Cell>
Split split_of(const tk_boost &boost, int64_t candidate, double gain, const Bins &bins,
               const Cell *histogram, const Sum &leaf) {
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
    found.bin =
        last_of_left(boost, bins, f, found.bin, next_with_rows(bins, of_feature, f, found.bin));
    return found;
}

template <class Cell>
Split best_of(const Rule &rule, const Bins &bins, const Cell *histogram, const Sum &leaf,
              const Features &features) {
    Search search(rule, leaf);
    Prefixes<Cell> left;
    for (int32_t f : features) {
        const Cell *of_feature = histogram + bins.first[f];
        int32_t n = bins.values(f);
        int64_t first = 2 * (int64_t)bins.first[f];
        Sum missing = bins.missing[f] ? sum_of(of_feature[n]) : Sum{0, 0, 0};
        left.take(of_feature, missing.rows ? n : n - 1, Sum{0, 0, 0}, first, search.range());
        if (left.full())
            search.look(left);
        if (missing.rows)
            left.take(of_feature, n - 1, missing, first + 1, search.range());
        if (left.full())
            search.look(left);
    }
    search.look(left);
    double gain = 0;
    int64_t candidate = search.pick(&gain);
    return candidate < 0 ? Split{} : split_of(*rule.boost, candidate, gain, bins, histogram, leaf);
}

// The best split of a leaf of few rows, whose sums are listed for the nonempty bins.
template <class Sums>
Split best_listed(const Rule &rule, const Sum &leaf, const Features &features, Sums &&sums) {
    Search search(rule, leaf);
    Listed left;
    for (int32_t f : features) {
        sums.list(f, &left);
        if (left.full())
            search.look(left);
    }
    search.look(left);
    double gain = 0;
    int64_t candidate = search.pick(&gain);
    return candidate < 0 ? Split{} : sums.split_of(*rule.boost, candidate, gain, leaf);
}

// Lists the candidates of a feature: first, twice the number of its first bin.
class Lister {
public:
    Lister(int64_t first, const Sum &missing, Listed *out)
        : first_(first), missing_(missing), out_(out) {}

    void add(int32_t bin, const Sum &of_bin) {
        bool lacking = missing_.rows > 0;
        if (lacking && !sum_.rows && bin > 0)
            out_->take(missing_, first_ + 1); // all missing values against the others
        sum_ += of_bin;
        out_->take(sum_, first_ + 2 * bin);
        Sum with = sum_;
        if (lacking)
            out_->take(with += missing_, first_ + 2 * bin + 1);
    }

private:
    int64_t first_;
    Sum missing_, sum_{0, 0, 0};
    Listed *out_;
};

// Sums by the rows of a leaf.
class ByRows {
public:
    ByRows(const Bins &bins, const Rows &rows, const LeafOf &leaf)
        : bins_(bins), rows_(rows), leaf_(leaf) {}

    void list(int32_t f, Listed *out) {
        uint64_t set[4] = {};
        for (int64_t i = 0; i < leaf_.n; i++) {
            int32_t code = code_of(i, f);
            cells_[code] += rows_.addends[leaf_.which[i]];
            set[code >> 6] |= UINT64_C(1) << (code & 63);
        }
        Sum missing{0, 0, 0};
        if (int32_t last = bins_.values(f); bins_.missing[f]) {
            missing = take_out(last);
            set[last >> 6] &= ~(UINT64_C(1) << (last & 63));
        }
        Lister to(2 * (int64_t)bins_.first[f], missing, out);
        for (int32_t word = 0; word < 4; word++)
            for (uint64_t left = set[word]; left; left &= left - 1) {
                int32_t bin = 64 * word + __builtin_ctzll(left);
                to.add(bin, take_out(bin));
            }
    }

    Split split_of(const tk_boost &boost, int64_t candidate, double gain, const Sum &leaf) const {
        int32_t f = feature_of(bins_, candidate);
        Split found{gain, f, (int32_t)(candidate / 2) - bins_.first[f], candidate % 2 == 1, {}};
        bool lacking = false, divides = false;
        int32_t next = bins_.values(f);
        for (int64_t i = 0; i < leaf_.n; i++) {
            int32_t code = code_of(i, f);
            bool missing = bins_.missing[f] && code == bins_.values(f);
            lacking |= missing;
            divides |= code == found.bin;
            if (missing ? found.missing_left : code <= found.bin)
                found.left += sum_of(rows_.addends[leaf_.which[i]]);
            else if (!missing)
                next = std::min(next, code);
        }
        if (!lacking)
            found.missing_left = 2 * found.left.rows >= leaf.rows;
        if (divides)
            found.bin = last_of_left(boost, bins_, f, found.bin, next);
        return found;
    }

private:
    int32_t code_of(int64_t i, int32_t f) const {
        return rows_.codes[(size_t)leaf_.which[i] * bins_.features() + f];
    }
    Sum take_out(int32_t bin) {
        Sum sum = sum_of(cells_[bin]);
        cells_[bin] = Addend{0, 0};
        return sum;
    }

    const Bins &bins_;
    const Rows &rows_;
    const LeafOf &leaf_;
    Addend cells_[TK_MOST_BINS + 1] = {};
};

// The same sums by a histogram.
template <class Cell> class ByHistogram {
public:
    ByHistogram(const Bins &bins, const Cell *histogram) : bins_(bins), histogram_(histogram) {}

    void list(int32_t f, Listed *out) const {
        const Cell *of_feature = histogram_ + bins_.first[f];
        int32_t n = bins_.values(f);
        Sum missing = bins_.missing[f] ? sum_of(of_feature[n]) : Sum{0, 0, 0};
        Lister to(2 * (int64_t)bins_.first[f], missing, out);
        for (int32_t bin = 0; bin < n; bin++)
            if (Sum sum = sum_of(of_feature[bin]); sum.rows)
                to.add(bin, sum);
    }
    Split split_of(const tk_boost &boost, int64_t candidate, double gain, const Sum &leaf) const {
        return tusk::split_of(boost, candidate, gain, bins_, histogram_, leaf);
    }

private:
    const Bins &bins_;
    const Cell *histogram_;
};

} // namespace

Split best_split_of_few(const Rule &rule, const Bins &bins, const Rows &rows, const LeafOf &leaf,
                        const Features &features) {
    return best_listed(rule, leaf.sum, features, ByRows(bins, rows, leaf));
}

Split best_split_of_few(const Rule &rule, const Bins &bins, const Sum *histogram, const Sum &leaf,
                        const Features &features) {
    return best_listed(rule, leaf, features, ByHistogram<Sum>(bins, histogram));
}

Split best_split_of_few(const Rule &rule, const Bins &bins, const Addend *histogram,
                        const Sum &leaf, const Features &features) {
    return best_listed(rule, leaf, features, ByHistogram<Addend>(bins, histogram));
}

Split best_split(const Rule &rule, const Bins &bins, const Sum *histogram, const Sum &leaf,
                 const Features &features) {
    return best_of(rule, bins, histogram, leaf, features);
}

Split best_split(const Rule &rule, const Bins &bins, const Addend *histogram, const Sum &leaf,
                 const Features &features) {
    return best_of(rule, bins, histogram, leaf, features);
}

} // namespace tusk
