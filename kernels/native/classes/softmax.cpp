// Several classes: the loss of a row is log sum_k exp(m_k) - m_y with a margin m_k = w_k.x + b_k
// of each class, its derivatives are p_k - [k = y] with p = softmax(m), and its curvatures p_k ([k
// = l] - p_l). Bohning, Multinomial logistic regression algorithm, 1992.
//
// A block of rows stays in cache while it is multiplied by the weights of each class in turn.
#include "softmax.hpp"
#include "../shared/common/exact_sum.hpp"

namespace tusk {
namespace {

template <class T>
void add_slopes(const SparseBlock<T> &x, int, int64_t, const double *r, double *g) {
    add_gradient(x, r, g);
}
void add_slopes(const auto &x, int n, int64_t d, const double *r, double *g) {
    add_gradient(x, n, d, r, g);
}

template <class T>
int softmax_gradient(const tk_pass *pass, const tk_softmax *s, const double *weights,
                     double *out) {
    int64_t d = pass->groups[0].dim, p = d + 1, n_classes = s->n_classes, wide = padded(d);
    int64_t width = 2 + (pass->loss_only ? 0 : n_classes * p);
    auto chunks = make_chunks(pass, std::max<int64_t>(chunk_rows_for(pass), 4 * n_classes));
    return sum_over_chunks(pass, chunks, width, out, [&](const Chunk &c, double *acc) {
        const ClassSet classes(s, c.group);
        ClassRows rows(n_classes);
        std::vector<double> g(pass->loss_only ? 0 : n_classes * wide, 0.0);
        each_block<T>(pass, s, c, weights, rows, [&](const auto &x, const Targets &y, int n) {
            acc[0] += rows.settle(classes, y, n);
            acc[1] += weight_of(y, n);
            for (int64_t k = 0; k < n_classes && !pass->loss_only; k++) {
                add_slopes(x, n, d, rows.of(k), g.data() + k * wide);
                acc[2 + k * p + d] += sum_block(rows.of(k));
            }
        });
        for (int64_t k = 0; k < n_classes && !pass->loss_only; k++)
            for (int64_t j = 0; j < d; j++)
                acc[2 + k * p + j] += g[k * wide + j];
    });
}

template <class T>
int softmax_curvature(const tk_pass *pass, const tk_softmax *s, const double *weights,
                      const double *shift, const double *scale, double *out) {
    int64_t d = pass->groups[0].dim, p = d + 1, n_classes = s->n_classes;
    int64_t triangle = p * (p + 1) / 2, pairs = n_classes * (n_classes + 1) / 2;
    auto chunks = make_chunks(pass, std::max<int64_t>(chunk_rows_for(pass), 4 * n_classes * p));
    return sum_over_chunks(pass, chunks, pairs * triangle, out, [&](const Chunk &c, double *acc) {
        const ClassSet classes(s, c.group);
        ClassRows rows(n_classes);
        std::vector<double> z(p, 1.0), product(triangle);
        each_block<T>(pass, s, c, weights, rows, [&](const auto &x, const Targets &y, int n) {
            rows.settle(classes, y, n);
            for (int i = 0; i < n; i++) {
                to_z(x, i, d, shift + c.group * d, scale + c.group * d, z.data());
                double *at = product.data();
                for (int64_t j = 0; j < p; j++)
                    for (int64_t l = 0; l <= j; l++)
                        *at++ = z[j] * z[l];
                int64_t own = classes.place(y.y[i]);
                double weight = classes.weight_of(own, y, i), *sums = acc;
                rows.of(own)[i] += weight; // the probabilities, times the weight
                for (int64_t k = 0; k < n_classes; k++)
                    for (int64_t l = 0; l <= k; l++, sums += triangle) {
                        double q = rows.of(k)[i];
                        double h = (k == l ? q : 0) - q * (rows.of(l)[i] / weight);
                        for (int64_t t = 0; t < triangle; t++)
                            sums[t] += h * product[t];
                    }
            }
        });
    });
}

// Counts rows.
struct Rows {
    double n = 0;

    void add(double) { n++; }
    double value() const { return n; }
};

// The distinct labels of a group, rising, with the rows of each or the sum of their weights; at
// most `most` + 1 labels.
template <class Sum>
int64_t find_classes(const tusk_group &group, int64_t most, double *label, double *rows) {
    std::vector<double> found;
    std::vector<Sum> counts;
    for (const tusk_segment *s : SegmentsOf(group)) {
        const double *weight = tusk_extra(s, tusk_shape_of(&group), TUSK_WEIGHTS);
        for (uint32_t i = 0; i < s->n_rows; i++) {
            double y = tusk_labels(s)[i];
            size_t at = std::lower_bound(found.begin(), found.end(), y) - found.begin();
            if (at == found.size() || found[at] != y) {
                if ((int64_t)found.size() == most)
                    return most + 1;
                found.insert(found.begin() + at, y);
                counts.emplace(counts.begin() + at);
            }
            counts[at].add(weight ? weight[i] : 1);
        }
    }
    std::copy(found.begin(), found.end(), label);
    for (const Sum &count : counts)
        *rows++ = count.value();
    return (int64_t)found.size();
}

} // namespace
} // namespace tusk

int tk_classes(const tk_pass *pass, int64_t most, double *label, double *rows, int64_t *count) {
    using namespace tusk;
    return code_of([&] {
        parallel_for(pass->n_groups, pass->threads, [&](int64_t g) {
            const tusk_group &group = pass->groups[g];
            auto find = group.extras & TUSK_WEIGHTS ? find_classes<ExactSum> : find_classes<Rows>;
            count[g] = find(group, most, label + g * most, rows + g * most);
        });
        return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
    });
}

int tk_softmax_gradient(const tk_pass *pass, const tk_softmax *softmax, const double *weights,
                        double *out) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            return softmax_gradient<T>(pass, softmax, weights, out);
        });
    });
}

int tk_softmax_curvature(const tk_pass *pass, const tk_softmax *softmax, const double *weights,
                         const double *shift, const double *scale, double *out) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            return softmax_curvature<T>(pass, softmax, weights, shift, scale, out);
        });
    });
}
