// Groups whose rows lack the effects of some categories: each of the other features, and the
// label, becomes its residual of a regression on the levels of these categories.
//
// Coefficients of a regression of such residuals are those of the regression with a feature for
// each level (Frisch and Waugh 1933; Lovell 1963). The largest category is eliminated exactly, by
// the means of its levels. The effects of the others solve the normal equations that remain, by
// conjugate gradients, which accelerate the alternating projections of Gaure (2013) and Correia
// (2016).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "../shared/pool.hpp"
#include "../shared/segments.hpp"
#include "api.h"

namespace tusk {
namespace {

constexpr int MOST_STEPS = 10000;
constexpr int WINDOW = 5;          // steps whose decrease estimates the error before them
constexpr double CLOSE = 1e-24;    // squared error, as a share of the sum of squares
constexpr double ROUNDING = 1e-28; // squared gradient, as such a share, that is rounding alone
constexpr double FLAT = 1e-12;     // curvature, as a share of the largest, that counts as none
constexpr double NOTHING =
    1e-13; // share of the sum of squares of a feature that the levels determine

// The rows of a group by the levels of its categories, those of the largest one together.
struct Levels {
    int64_t n = 0;
    std::vector<std::vector<int32_t>> code; // by category and row
    std::vector<int32_t> size;              // levels of each category
    size_t largest = 0;
    std::vector<int64_t> start, row;         // rows by the level of the largest category
    std::vector<double> weight;              // of these rows
    std::vector<std::vector<int32_t>> other; // unknown of each other category in these rows
    std::vector<int32_t> first;              // first unknown of each category; -1: the largest
    std::vector<double> sum, inverse;        // of weights by level of the largest, by unknown

    size_t n_categories() const { return size.size(); }
};

// Reads the levels of the rows, and copies the other features, the labels less the offsets,
// weights and clusters to `out`.
class Reader {
public:
    Reader(const tusk_group &group, const tk_absorbing &how, Levels &levels)
        : group_(group), how_(how), levels_(levels), category_((size_t)group.dim, -1),
          place_((size_t)group.dim) {
        int32_t next = 0;
        for (int32_t q = 0; q < how.n_effects; q++) {
            levels.size.push_back(how.effects[2 * q + 1] + 1);
            levels.code.emplace_back((size_t)group.n_rows, 0);
            for (int32_t k = 0; k < how.effects[2 * q + 1]; k++) {
                category_[(size_t)(how.effects[2 * q] + k)] = q;
                place_[(size_t)(how.effects[2 * q] + k)] = k + 1;
            }
        }
        for (size_t j = 0; j < category_.size(); j++)
            if (category_[j] < 0)
                place_[j] = next++;
        d_ = next;
    }

    int32_t n_others() const { return d_; }

    void read(const tusk_segment *from, int64_t first, tusk_segment *to, tusk_shape shape) const {
        tusk_shape before = tusk_shape_of(&group_);
        to->n_rows = from->n_rows;
        tusk_copy_extras(to, shape, 0, from, before, 0, from->n_rows);
        const double *offset = tusk_extra(from, before, TUSK_OFFSETS);
        for (uint32_t i = 0; i < from->n_rows; i++)
            tusk_labels(to)[i] = tusk_labels(from)[i] - (offset ? offset[i] : 0);
        double *x = (double *)tusk_dense_values(to);
        std::fill_n(x, (size_t)from->n_rows * (size_t)d_, 0.0);
        tusk_value_size(group_.kind) == sizeof(float) ? put_rows<float>(from, first, x)
                                                      : put_rows<double>(from, first, x);
        double *cluster = how_.cluster < 0 ? nullptr : tusk_extra(to, shape, TUSK_CLUSTERS);
        for (uint32_t i = 0; cluster && i < from->n_rows; i++)
            cluster[i] = levels_.code[(size_t)how_.cluster][(size_t)first + i];
    }

private:
    const tusk_group &group_;
    const tk_absorbing &how_;
    Levels &levels_;
    std::vector<int32_t> category_, place_; // of each feature: -1 and its new index, or its level
    int32_t d_;

    void put(size_t feature, double value, int64_t row, double *x) const {
        if (category_[feature] < 0)
            x[place_[feature]] += value;
        else if (value != 0)
            levels_.code[(size_t)category_[feature]][(size_t)row] = place_[feature];
    }

    template <class T> void put_rows(const tusk_segment *s, int64_t first, double *x) const {
        const bool sparse = tusk_is_sparse(group_.kind);
        const T *value = (const T *)(sparse ? tusk_sparse_values(s) : tusk_dense_values(s));
        const size_t d = (size_t)group_.dim;
        for (uint32_t i = 0; i < s->n_rows; i++, x += d_) {
            if (!sparse)
                for (size_t j = 0; j < d; j++)
                    put(j, (double)value[i * d + j], first + i, x);
            else
                for (uint32_t k = tusk_row_starts(s)[i]; k < tusk_row_starts(s)[i + 1]; k++)
                    put((size_t)tusk_indices(s)[k], (double)value[k], first + i, x);
        }
    }
};

// Puts the rows of each level of the largest category together; weight: of each row.
void sort_rows(Levels &l, const std::vector<double> &weight) {
    l.largest = (size_t)(std::max_element(l.size.begin(), l.size.end()) - l.size.begin());
    const auto &code = l.code[l.largest];
    l.start.assign((size_t)l.size[l.largest] + 1, 0);
    for (int32_t level : code)
        l.start[(size_t)level + 1]++;
    std::partial_sum(l.start.begin(), l.start.end(), l.start.begin());
    std::vector<int64_t> next(l.start);
    l.row.resize((size_t)l.n);
    for (int64_t i = 0; i < l.n; i++)
        l.row[(size_t)next[(size_t)code[(size_t)i]]++] = i;
    l.weight.resize((size_t)l.n);
    l.sum.assign((size_t)l.size[l.largest], 0.0);
    int32_t unknowns = 0;
    for (size_t q = 0; q < l.n_categories(); q++) {
        l.first.push_back(q == l.largest ? -1 : unknowns);
        if (q == l.largest)
            continue;
        l.other.emplace_back((size_t)l.n);
        for (int64_t k = 0; k < l.n; k++)
            l.other.back()[(size_t)k] = unknowns + l.code[q][(size_t)l.row[(size_t)k]];
        unknowns += l.size[q];
    }
    l.inverse.assign((size_t)unknowns, 0.0);
    for (int64_t k = 0; k < l.n; k++) {
        const double w = l.weight[(size_t)k] = weight[(size_t)l.row[(size_t)k]];
        l.sum[(size_t)code[(size_t)l.row[(size_t)k]]] += w;
        for (const auto &other : l.other)
            l.inverse[(size_t)other[(size_t)k]] += w;
    }
    for (double &w : l.inverse)
        w = w > 0 ? 1 / w : 0;
}

// The regression of one column of numbers on the levels. Its values are in the order of Levels.
class Column {
public:
    Column(const Levels &levels, std::vector<double> values)
        : l_(levels), v_(std::move(values)), means_(l_.sum.size()), effect_(l_.inverse.size()) {}

    // Removes the effects; false if they did not converge.
    bool remove(int64_t mark) {
        centre();
        squares_ = sum_of_squares();
        bool done = true;
        // A second regression, of the residuals, removes what rounding left.
        for (int round = 0; round < (l_.other.empty() ? 1 : 2); round++) {
            std::vector<double> found(effect_.size());
            done = l_.other.empty() || solve(found, mark);
            subtract(found);
        }
        return done;
    }

    const std::vector<double> &residuals() const { return v_; }
    double mean() const { return mean_; }
    double squares() const { return squares_; } // about the mean
    double sum_of_squares() const {
        double sum = 0;
        for (size_t k = 0; k < v_.size(); k++)
            sum += l_.weight[k] * v_[k] * v_[k];
        return sum;
    }
    double effect(size_t category, int32_t level) const {
        return category == l_.largest ? means_[(size_t)level]
                                      : effect_[(size_t)(l_.first[category] + level)];
    }

private:
    const Levels &l_;
    std::vector<double> v_, means_, effect_;
    double mean_ = 0, squares_ = 0;

    void centre() {
        double sum = 0, weight = 0;
        for (size_t k = 0; k < v_.size(); k++) {
            sum += l_.weight[k] * v_[k];
            weight += l_.weight[k];
        }
        mean_ = sum / weight;
        for (double &x : v_)
            x -= mean_;
    }

    // For each unknown the weighted sum, over its rows, of `of(k)` less the mean over the row's
    // level of the largest category.
    template <class Of> void gather(Of &&of, std::vector<double> &out) const {
        std::fill(out.begin(), out.end(), 0.0);
        std::vector<double> own;
        for (size_t level = 0; level < l_.sum.size(); level++) {
            const size_t begin = (size_t)l_.start[level], n = (size_t)l_.start[level + 1] - begin;
            own.resize(n);
            double sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += l_.weight[begin + i] * (own[i] = of(begin + i));
            const double mean = n ? sum / l_.sum[level] : 0;
            for (const auto &other : l_.other)
                for (size_t i = 0; i < n; i++)
                    out[(size_t)other[begin + i]] += l_.weight[begin + i] * (own[i] - mean);
        }
    }

    double total(const std::vector<double> &effects, size_t k) const {
        double sum = 0;
        for (const auto &other : l_.other)
            sum += effects[(size_t)other[k]];
        return sum;
    }

    // The squared length of effects, by the weights of their levels.
    double length_of(const std::vector<double> &effects) const {
        double sum = 0;
        for (size_t j = 0; j < effects.size(); j++)
            sum += l_.inverse[j] > 0 ? effects[j] * effects[j] / l_.inverse[j] : 0;
        return sum;
    }

    // Conjugate gradients for the effects of all categories but the largest, preconditioned by the
    // weights of their levels. The squared error falls at each step by a known amount, and what
    // the next steps take away estimates it (Strakos and Tichy 2002).
    bool solve(std::vector<double> &found, int64_t mark) const {
        const size_t m = found.size();
        std::vector<double> rest(m), move(m), image(m);
        gather([&](size_t k) { return v_[k]; }, rest);
        auto product = [&] {
            double sum = 0;
            for (size_t j = 0; j < m; j++)
                sum += rest[j] * rest[j] * l_.inverse[j];
            return sum;
        };
        double size = product();
        if (size <= ROUNDING * squares_)
            return true;
        std::array<double, WINDOW> falls{};
        for (size_t j = 0; j < m; j++)
            move[j] = rest[j] * l_.inverse[j];
        for (int step = 0; step < MOST_STEPS && !cancelled(mark); step++) {
            gather([&](size_t k) { return total(move, k); }, image);
            const double bend = std::inner_product(move.begin(), move.end(), image.begin(), 0.0);
            if (!(bend > FLAT * length_of(move)))
                return true; // what is left is rounding, along constants that cancel each other
            const double length = size / bend;
            for (size_t j = 0; j < m; j++) {
                found[j] += length * move[j];
                rest[j] -= length * image[j];
            }
            falls[(size_t)step % WINDOW] = length * size;
            const double fell = std::accumulate(falls.begin(), falls.end(), 0.0);
            if (step + 1 >= WINDOW && fell <= CLOSE * squares_)
                return true;
            const double next = product();
            for (size_t j = 0; j < m; j++)
                move[j] = rest[j] * l_.inverse[j] + next / size * move[j];
            size = next;
        }
        return false;
    }

    // Subtracts effects, and then the means over the levels of the largest category.
    void subtract(const std::vector<double> &found) {
        for (size_t j = 0; j < found.size(); j++)
            effect_[j] += found[j];
        for (size_t level = 0; level < l_.sum.size(); level++) {
            const size_t begin = (size_t)l_.start[level], end = (size_t)l_.start[level + 1];
            double sum = 0;
            for (size_t k = begin; k < end; k++)
                sum += l_.weight[k] * (v_[k] -= total(found, k));
            const double mean = begin < end ? sum / l_.sum[level] : 0;
            means_[level] += mean;
            for (size_t k = begin; k < end; k++)
                v_[k] -= mean;
        }
    }
};

// --- degrees of freedom ---

int64_t find(std::vector<int64_t> &parent, int64_t i) {
    while (parent[(size_t)i] != i)
        i = parent[(size_t)i] = parent[(size_t)parent[(size_t)i]];
    return i;
}

// Connected components of the levels of two categories that occur, joined by rows that have both.
int64_t components(const Levels &l, size_t a, size_t b) {
    std::vector<int64_t> parent((size_t)l.size[a] + (size_t)l.size[b]);
    std::iota(parent.begin(), parent.end(), 0);
    std::vector<bool> seen(parent.size());
    for (size_t i = 0; i < (size_t)l.n; i++) {
        const int64_t one = l.code[a][i], other = (int64_t)l.size[a] + l.code[b][i];
        seen[(size_t)one] = seen[(size_t)other] = true;
        parent[(size_t)find(parent, one)] = find(parent, other);
    }
    int64_t found = 0;
    for (size_t i = 0; i < parent.size(); i++)
        found += seen[i] && parent[i] == (int64_t)i;
    return found;
}

// Whether each level of a category is in one cluster alone. cluster: of each row.
bool nested(const Levels &l, size_t q, const std::vector<double> &cluster) {
    std::vector<double> of((size_t)l.size[q], std::nan(""));
    for (size_t i = 0; i < (size_t)l.n; i++) {
        double &known = of[(size_t)l.code[q][i]];
        if (std::isnan(known))
            known = cluster[i];
        else if (known != cluster[i])
            return false;
    }
    return true;
}

// Levels that occur, less those that an earlier one of the chosen categories determines: for two
// categories exactly the rank of their levels.
int64_t rank(const Levels &l, const std::vector<size_t> &chosen) {
    int64_t found = 0;
    for (size_t at = 0; at < chosen.size(); at++) {
        const auto &code = l.code[chosen[at]];
        std::vector<bool> seen((size_t)l.size[chosen[at]]);
        for (int32_t level : code)
            seen[(size_t)level] = true;
        int64_t determined = 0;
        for (size_t before = 0; before < at; before++)
            determined = std::max(determined, components(l, chosen[before], chosen[at]));
        found += std::count(seen.begin(), seen.end(), true) - determined;
    }
    return found;
}

// --- the whole ---

struct Copy {
    const tusk_segment *from;
    tusk_segment *to;
    int64_t first;
};

int copy_segments(const tusk_group &group, tusk_memory *memory, tusk_group *out,
                  std::vector<Copy> *copies) {
    tusk_segment **link = const_cast<tusk_segment **>(&out->head);
    int64_t first = 0;
    for (const tusk_segment *s : SegmentsOf(group)) {
        int code = TUSK_OK;
        tusk_segment *to = tusk_segment_new(memory, tusk_shape_of(out), s->n_rows, 0, &code);
        if (!to)
            return code == TUSK_DISK_FULL ? TK_DISK_FULL : TK_NO_MEMORY;
        *link = to;
        link = &to->next;
        copies->push_back({s, to, first});
        first += s->n_rows;
    }
    return TK_OK;
}

// An extra of all rows, in order; `missing` where they have none.
std::vector<double> extra_of(const std::vector<Copy> &copies, tusk_shape shape,
                             enum tusk_extra which, double missing) {
    std::vector<double> found;
    for (const Copy &one : copies) {
        const double *own = tusk_extra(one.to, shape, which);
        for (uint32_t i = 0; i < one.to->n_rows; i++)
            found.push_back(own ? own[i] : missing);
    }
    return found;
}

// Where column j of a row of a copy is; the last one is the label.
double *cell(const Copy &one, int32_t d, int32_t j, uint32_t i) {
    return j == d ? tusk_labels(one.to) + i
                  : (double *)tusk_dense_values(one.to) + (size_t)i * (size_t)d + j;
}

void remove_effects(const Levels &l, const std::vector<Copy> &copies, int32_t d, int32_t j,
                    const tk_absorbing &how, tk_absorbed_column *out, double *effects) {
    std::vector<double> plain, sorted((size_t)l.n);
    plain.reserve(sorted.size());
    for (const Copy &one : copies)
        for (uint32_t i = 0; i < one.to->n_rows; i++)
            plain.push_back(*cell(one, d, j, i));
    for (size_t k = 0; k < sorted.size(); k++)
        sorted[k] = plain[(size_t)l.row[k]];
    Column column(l, std::move(sorted));
    out->converged = column.remove(how.cancel_mark);
    out->mean = column.mean();
    out->squares = column.squares();
    out->rest = column.sum_of_squares();
    const bool determined = j < d && out->rest <= NOTHING * out->squares;
    for (size_t k = 0; k < plain.size(); k++)
        plain[(size_t)l.row[k]] = determined ? 0 : column.residuals()[k];
    size_t row = 0;
    for (const Copy &one : copies)
        for (uint32_t i = 0; i < one.to->n_rows; i++)
            *cell(one, d, j, i) = plain[row++];
    for (size_t q = 0; q < l.n_categories(); q++)
        for (int32_t level = 0; level < l.size[q]; level++)
            *effects++ = column.effect(q, level);
}

int absorb(const tusk_group &group, const tk_absorbing &how, tusk_memory *memory, tusk_group *out,
           tk_absorbed_column *columns, double *effects, double *weights, int64_t *ranks) {
    Levels l;
    l.n = group.n_rows;
    Reader reader(group, how, l);
    const int32_t d = reader.n_others();
    *out = group;
    out->head = nullptr;
    out->kind = TUSK_DENSE_F64;
    out->dim = d;
    out->extras = (group.extras & ~TUSK_OFFSETS) | (how.cluster < 0 ? 0 : TUSK_CLUSTERS);
    std::vector<Copy> copies;
    if (int code = copy_segments(group, memory, out, &copies))
        return code;
    const tusk_shape shape = tusk_shape_of(out);
    parallel_for((int64_t)copies.size(), how.threads, [&](int64_t i) {
        const Copy &one = copies[(size_t)i];
        reader.read(one.from, one.first, one.to, shape);
    });
    const std::vector<double> weight = extra_of(copies, shape, TUSK_WEIGHTS, 1);
    sort_rows(l, weight);
    for (const auto &code : l.code) {
        for (size_t i = 0; i < code.size(); i++)
            weights[code[i]] += weight[i];
        weights += l.size[(size_t)(&code - l.code.data())];
    }
    const int64_t width = std::accumulate(l.size.begin(), l.size.end(), (int64_t)0);
    parallel_for(d + 1, how.threads, [&](int64_t j) {
        if (!cancelled(how.cancel_mark))
            remove_effects(l, copies, d, (int32_t)j, how, columns + j, effects + j * width);
    });
    std::vector<size_t> all(l.n_categories()), apart;
    std::iota(all.begin(), all.end(), (size_t)0);
    const std::vector<double> cluster = extra_of(copies, shape, TUSK_CLUSTERS, 0);
    const bool clustered = out->extras & TUSK_CLUSTERS;
    std::copy_if(all.begin(), all.end(), std::back_inserter(apart),
                 [&](size_t q) { return clustered && !nested(l, q, cluster); });
    ranks[0] = rank(l, all);
    ranks[1] = rank(l, apart);
    return cancelled(how.cancel_mark) ? TK_CANCELLED : TK_OK;
}

} // namespace
} // namespace tusk

int tk_absorb(const tusk_group *group, const tk_absorbing *how, tusk_memory *memory,
              tusk_group *out, tk_absorbed_column *columns, double *effects, double *weights,
              int64_t *ranks) {
    using namespace tusk;
    std::memset(out, 0, sizeof *out);
    int code = code_of(
        [&] { return absorb(*group, *how, memory, out, columns, effects, weights, ranks); });
    if (code)
        tk_free_groups(out, 1);
    return code;
}
