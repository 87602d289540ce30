// Sums of squared scores, the middle of a sandwich covariance: sum_i w_i s_i^2 / (1 - h_i)^k z_i
// z_i' with the derivative s_i of row i's loss and its leverage h_i. White, A
// heteroskedasticity-consistent covariance matrix estimator, 1980 (k = 0); MacKinnon and White,
// Some heteroskedasticity-consistent covariance matrix estimators, 1985 (k = 1, HC2, and k = 2,
// HC3).
#include <cmath>
#include <vector>

#include "../shared/clusters.hpp"
#include "api.h"
#include "dense.hpp"
#include "sparse.hpp"

namespace tusk {
namespace {

constexpr double LEAST = 1e-12; // least 1 - h

// Parameters shared by the rows of a group.
struct Group {
    int64_t d;
    int power;
    bool squared;
    const double *shift, *scale, *inverse;

    // z'Az with the lower triangle of A, row by row.
    double squared_length(const double *z) const {
        const double *a = inverse;
        double total = 0;
        for (int64_t j = 0; j <= d; j++) {
            double sum = 0;
            for (int64_t k = 0; k < j; k++)
                sum += *a++ * z[k];
            total += z[j] * (2 * sum + *a++ * z[j]);
        }
        return total;
    }

    // Adds n rows, whose slopes and curvatures include their weights.
    void add(const auto &x, int n, const Targets &t, const double *slope, const double *curvature,
             double *z, double *out) const {
        for (int i = 0; i < n; i++) {
            to_z(x, i, d, shift, scale, z);
            double weight = t.weight ? t.weight[i] : 1, by = slope[i] * slope[i] / weight;
            if (power) {
                double rows = squared ? std::sqrt(weight) : 1; // of its own leverage
                double left = 1 - rows * curvature[i] / weight * squared_length(z);
                by /= power == 1 ? std::max(left, LEAST) : std::pow(std::max(left, LEAST), power);
            }
            double *to = out;
            for (int64_t j = 0; j <= d; j++)
                for (int64_t k = 0; k <= j; k++)
                    *to++ += by * z[j] * z[k];
        }
    }
};

// Calls body(rows, targets, n, slopes, curvatures) for the rows of a chunk. padded: of dense rows.
template <class T, class Body>
void each_slope(const tk_pass *pass, const tk_robust *how, const PaddedWeights &padded,
                const Chunk &c, Body &&body) {
    int64_t d = pass->groups[0].dim;
    const Loss loss(pass, c.group);
    const Labels labels(pass, c.group);
    const double *w = how->weights + c.group * (d + 1);
    alignas(64) double m[BLOCK_ROWS], r[BLOCK_ROWS], h[BLOCK_ROWS];
    auto take = [&](const auto &x, const Targets &t, int n) {
        derivatives(loss, labels, m, t, n, r, h);
        body(x, t, n, r, h);
    };
    if (tusk_is_sparse(pass->groups[0].kind))
        return for_sparse_blocks<T>(c, BLOCK_ROWS, [&](const SparseBlock<T> &x) {
            margins(x, w, w[d], m);
            take(x, x.y, x.n);
        });
    for_dense_blocks<T>(c, d, BLOCK_ROWS, [&](const auto &x, const Targets &t, int n) {
        margins(x, n, d, padded.of(c.group), w[d], m);
        take(x, t, n);
    });
}

PaddedWeights padded_weights(const tk_pass *pass, const tk_robust *how) {
    bool sparse = tusk_is_sparse(pass->groups[0].kind);
    return sparse ? PaddedWeights() : PaddedWeights(pass, how->weights);
}

template <class T>
int by_cluster(const tk_pass *pass, const tk_robust *how, double *out, int64_t *clusters) {
    int64_t d = pass->groups[0].dim, p = d + 1, triangle = p * (p + 1) / 2;
    const PaddedWeights padded = padded_weights(pass, how);
    std::fill(out, out + pass->n_groups * triangle, 0.0);
    each_group_in_order(
        pass, chunk_rows_for(pass), [&](int64_t g, const Chunk *from, const Chunk *to) {
            ClusterSums sums(pass->groups[g], p);
            std::vector<double> z(p, 1.0);
            const double *shift = how->shift + g * d, *scale = how->scale + g * d;
            auto add = [&](const auto &x, const Targets &t, int n, const double *r, double *) {
                for (int i = 0; i < n; i++) {
                    to_z(x, i, d, shift, scale, z.data());
                    double *sum = sums.of(t.cluster[i]);
                    for (int64_t j = 0; j < p; j++)
                        sum[j] += r[i] * z[j];
                }
            };
            for (; from != to && !cancelled(pass->cancel_mark); from++)
                each_slope<T>(pass, how, padded, *from, add);
            sums.add_squares(out + g * triangle);
            clusters[g] = sums.n();
        });
    return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
}

template <class T> int robust(const tk_pass *pass, const tk_robust *how, double *out) {
    int64_t d = pass->groups[0].dim, p = d + 1, triangle = p * (p + 1) / 2;
    const PaddedWeights padded = padded_weights(pass, how);
    auto chunks = make_chunks(pass, std::max<int64_t>(chunk_rows_for(pass), 4 * p));
    return sum_over_chunks(pass, chunks, triangle, out, [&](const Chunk &c, double *acc) {
        const Group group{d,
                          how->power,
                          how->squared != 0,
                          how->shift + c.group * d,
                          how->scale + c.group * d,
                          how->inverse + c.group * triangle};
        std::vector<double> z(p, 1.0);
        each_slope<T>(pass, how, padded, c,
                      [&](const auto &x, const Targets &t, int n, const double *r,
                          const double *h) { group.add(x, n, t, r, h, z.data(), acc); });
    });
}

} // namespace
} // namespace tusk

int tk_cluster_scores(const tk_pass *pass, const tk_robust *how, double *out, int64_t *clusters) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(
            pass, [&]<class T>(const T *) { return by_cluster<T>(pass, how, out, clusters); });
    });
}

int tk_squared_scores(const tk_pass *pass, const tk_robust *how, double *out) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) { return robust<T>(pass, how, out); });
    });
}
