// Sums over rows of the losses of ordered levels, with their gradient and curvature.
#include "../linear/dense.hpp"
#include "../linear/sparse.hpp"
#include "../shared/clusters.hpp"
#include "../shared/reach.hpp"
#include "api.h"
#include "links.hpp"

namespace tusk {
namespace {

// The levels of a group, and how its rows become z.
struct Group {
    int64_t d, n_levels;
    const double *label, *shift, *scale, *v;
    Group(const tk_pass *pass, const tk_ordinal *how, const double *all, int64_t g)
        : d(pass->groups[0].dim), n_levels(how->n_levels), label(how->label + g * n_levels),
          shift(how->shift + g * d), scale(how->scale + g * d), v(all + g * size()) {}
    int64_t cuts() const { return n_levels - 1; }
    int64_t size() const { return cuts() + d; }
    int64_t level_of(double y) const {
        return std::lower_bound(label, label + n_levels, y) - label;
    }
    // The ends of a level at x.b = m.
    double low(int64_t level, double m) const { return level ? v[level - 1] - m : -HUGE_VAL; }
    double high(int64_t level, double m) const { return level < cuts() ? v[level] - m : HUGE_VAL; }
};

double dot(const double *a, const double *b, int64_t d) {
    double total = 0;
    for (int64_t j = 0; j < d; j++)
        total += a[j] * b[j];
    return total;
}

// A row as z, with its level.
struct Row {
    const double *z;
    int64_t level;
    double offset, weight, cluster;
};

// Calls body(row) for each row of a chunk.
template <class T, class Body>
void each_row(const tk_pass *pass, const Chunk &c, const Group &group, Body &&body) {
    std::vector<double> z(group.d);
    auto block = [&](const auto &x, const Targets &y, int n) {
        for (int i = 0; i < n && !cancelled(pass->cancel_mark); i++) {
            to_z(x, i, group.d, group.shift, group.scale, z.data());
            body(Row{z.data(), group.level_of(y.y[i]), y.offset ? y.offset[i] : 0,
                     y.weight ? y.weight[i] : 1, y.cluster ? y.cluster[i] : 0});
        }
    };
    if (tusk_is_sparse(pass->groups[0].kind))
        return for_sparse_blocks<T>(c, BLOCK_ROWS,
                                    [&](const SparseBlock<T> &x) { block(x, x.y, x.n); });
    for_dense_blocks<T>(c, group.d, BLOCK_ROWS, block);
}

// The terms of a row, infinite where thresholds do not rise.
template <class Link> LevelTerms terms_of(const Group &group, const Row &row, Link) {
    const double m = dot(row.z, group.v + group.cuts(), group.d) + row.offset;
    const double a = group.low(row.level, m), b = group.high(row.level, m);
    return a < b ? Link::of(a, b) : LevelTerms{HUGE_VAL, 0, 0, 0, 0, 0};
}

// Adds the gradient of a row's loss by v, times its weight.
void add_slopes(const Group &group, const Row &row, const LevelTerms &t, double *slopes) {
    const int64_t cuts = group.cuts();
    if (row.level)
        slopes[row.level - 1] -= row.weight * t.by_a;
    if (row.level < cuts)
        slopes[row.level] -= row.weight * t.by_b;
    const double slope = row.weight * (t.by_a + t.by_b);
    for (int64_t j = 0; j < group.d; j++)
        slopes[cuts + j] += slope * row.z[j];
}

// A symmetric form in both ends of a row.
struct Form {
    double aa, ab, bb;
};

Form form_of(const LevelTerms &t, double weight, int32_t of_scores) {
    if (!of_scores)
        return {-weight * t.by_aa, -weight * t.by_ab, -weight * t.by_bb};
    const double by = of_scores == 1 ? weight : weight * weight;
    return {by * t.by_a * t.by_a, by * t.by_a * t.by_b, by * t.by_b * t.by_b};
}

// Adds the form of a row to a lower triangle by v.
void add_form(const Group &group, int64_t level, const double *z, const Form &f,
              double *triangle) {
    const int64_t cuts = group.cuts();
    const double of_a = -f.aa - f.ab, of_b = -f.bb - f.ab, of_both = f.aa + 2 * f.ab + f.bb;
    double *row = triangle + level * (level + 1) / 2;
    if (level < cuts)
        row[level] += f.bb;
    if (level)
        row[-1] += f.aa;
    if (level && level < cuts)
        row[level - 1] += f.ab;
    row = triangle + cuts * (cuts + 1) / 2;
    for (int64_t j = 0; j < group.d; row += cuts + ++j) {
        if (z[j] == 0)
            continue;
        if (level)
            row[level - 1] += of_a * z[j];
        if (level < cuts)
            row[level] += of_b * z[j];
        const double by = of_both * z[j];
        for (int64_t l = 0; l <= j; l++)
            row[cuts + l] += by * z[l];
    }
}

template <class T, class Link>
int sums(const tk_pass *pass, const tk_ordinal *how, const double *v, Link link, double *out) {
    const int64_t q = how->n_levels - 1 + pass->groups[0].dim;
    const int64_t width = 2 + (pass->loss_only ? 0 : q + q * (q + 1) / 2);
    auto chunks = make_chunks(pass, std::max<int64_t>(chunk_rows_for(pass), 4 * q));
    return sum_over_chunks(pass, chunks, width, out, [&](const Chunk &c, double *acc) {
        const Group group(pass, how, v, c.group);
        double *slopes = acc + 2, *triangle = slopes + q;
        each_row<T>(pass, c, group, [&](const Row &row) {
            const LevelTerms t = terms_of(group, row, link);
            acc[0] += row.weight * t.loss;
            acc[1] += row.weight;
            if (pass->loss_only)
                return;
            add_slopes(group, row, t, slopes);
            add_form(group, row.level, row.z, form_of(t, row.weight, how->of_scores), triangle);
        });
    });
}

template <class T, class Link>
int by_cluster(const tk_pass *pass, const tk_ordinal *how, const double *v, Link link, double *out,
               int64_t *clusters) {
    const int64_t q = how->n_levels - 1 + pass->groups[0].dim, triangle = q * (q + 1) / 2;
    std::fill(out, out + pass->n_groups * triangle, 0.0);
    each_group_in_order(
        pass, chunk_rows_for(pass), [&](int64_t g, const Chunk *from, const Chunk *to) {
            const Group group(pass, how, v, g);
            ClusterSums sums(pass->groups[g], q);
            for (; from != to && !cancelled(pass->cancel_mark); from++)
                each_row<T>(pass, *from, group, [&](const Row &row) {
                    add_slopes(group, row, terms_of(group, row, link), sums.of(row.cluster));
                });
            sums.add_squares(out + g * triangle);
            clusters[g] = sums.n();
        });
    return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
}

template <class T, class Link>
int reach(const tk_pass *pass, const tk_ordinal *how, const double *v, const double *step, Link,
          double *out) {
    std::vector<double> found(4 * pass->n_groups);
    const int code = reach_by_group(pass, found.data(), [&](const Chunk &c, Reach *all) {
        const Group group(pass, how, v, c.group), along(pass, how, step, c.group);
        const int64_t cuts = group.cuts();
        each_row<T>(pass, c, group, [&](const Row &row) {
            const int64_t level = row.level;
            const double m = dot(row.z, group.v + cuts, group.d) + row.offset;
            const double moved = dot(row.z, along.v + cuts, group.d);
            const LevelTerms t = Link::of(group.low(level, m), group.high(level, m));
            const double by_a = level ? along.low(level, moved) : 0;
            const double by_b = level < cuts ? along.high(level, moved) : 0;
            if (level)
                all->take(0, by_a, (t.by_aa * by_a + t.by_ab * by_b) / t.by_a);
            if (level < cuts)
                all->take(0, -by_b, (t.by_ab * by_a + t.by_bb * by_b) / t.by_b);
        });
    });
    for (int64_t g = 0; g < pass->n_groups; g++, out += 2) {
        out[0] = found[4 * g + 1];
        out[1] = found[4 * g + 3];
    }
    return code;
}

} // namespace
} // namespace tusk

int tk_ordinal_sums(const tk_pass *pass, const tk_ordinal *how, const double *v, double *out) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            return with_link(how->link,
                             [&](auto link) { return sums<T>(pass, how, v, link, out); });
        });
    });
}

int tk_ordinal_clusters(const tk_pass *pass, const tk_ordinal *how, const double *v, double *out,
                        int64_t *clusters) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            return with_link(how->link, [&](auto link) {
                return by_cluster<T>(pass, how, v, link, out, clusters);
            });
        });
    });
}

int tk_ordinal_reach(const tk_pass *pass, const tk_ordinal *how, const double *v,
                     const double *step, double *out) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            return with_link(how->link,
                             [&](auto link) { return reach<T>(pass, how, v, step, link, out); });
        });
    });
}
