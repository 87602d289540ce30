// Squared scores of several classes, the middle of a sandwich covariance: the score of a row is
// r_k z for each class k, with the derivative r_k of its loss by the class's margin. White,
// Maximum likelihood estimation of misspecified models, 1982; by cluster, Liang and Zeger,
// Longitudinal data analysis using generalized linear models, 1986; by leverage, leverage.hpp.
#include "../shared/clusters.hpp"
#include "leverage.hpp"
#include "softmax.hpp"

namespace tusk {
namespace {

struct Coordinates {
    int64_t d;
    const double *shift, *scale;
    Leverage *leverage; // NULL: scores as they are
};

// Calls body(targets, i, score) for the rows of a chunk; score: (n_classes, d + 1), times the
// row's weight.
template <class T, class Body>
void each_score(const tk_pass *pass, const tk_softmax *s, const Chunk &c, const double *weights,
                const Coordinates &to, Body &&body) {
    const int64_t p = to.d + 1, n_classes = s->n_classes;
    const ClassSet classes(s, c.group);
    ClassRows rows(n_classes);
    std::vector<double> z(p, 1.0), score(n_classes * p);
    each_block<T>(pass, s, c, weights, rows, [&](const auto &x, const Targets &y, int n) {
        rows.settle(classes, y, n);
        for (int i = 0; i < n; i++) {
            to_z(x, i, to.d, to.shift, to.scale, z.data());
            if (to.leverage) {
                int64_t own = classes.place(y.y[i]);
                to.leverage->divide(rows, i, own, classes.weight_of(own, y, i), z.data());
            }
            for (int64_t k = 0; k < n_classes; k++)
                for (int64_t j = 0; j < p; j++)
                    score[k * p + j] = rows.of(k)[i] * z[j];
            body(y, i, score.data());
        }
    });
}

template <class T>
int by_row(const tk_pass *pass, const tk_softmax *s, const tk_robust *how, double *out) {
    const int64_t d = pass->groups[0].dim, width = s->n_classes * (d + 1);
    auto chunks = make_chunks(pass, std::max<int64_t>(chunk_rows_for(pass), 4 * width));
    return sum_over_chunks(
        pass, chunks, width * (width + 1) / 2, out, [&](const Chunk &c, double *acc) {
            Leverage leverage(s->n_classes, d + 1, how, c.group);
            const Coordinates to{d, how->shift + c.group * d, how->scale + c.group * d,
                                 how->power ? &leverage : nullptr};
            each_score<T>(pass, s, c, how->weights, to,
                          [&](const Targets &y, int i, const double *score) {
                              double share = y.weight ? 1 / y.weight[i] : 1, *at = acc;
                              for (int64_t j = 0; j < width; j++)
                                  for (int64_t k = 0; k <= j; k++)
                                      *at++ += share * score[j] * score[k];
                          });
        });
}

template <class T>
int by_cluster(const tk_pass *pass, const tk_softmax *s, const tk_robust *how, double *out,
               int64_t *clusters) {
    const int64_t d = pass->groups[0].dim, width = s->n_classes * (d + 1);
    const int64_t triangle = width * (width + 1) / 2;
    std::fill(out, out + pass->n_groups * triangle, 0.0);
    each_group_in_order(
        pass, chunk_rows_for(pass), [&](int64_t g, const Chunk *from, const Chunk *end) {
            ClusterSums sums(pass->groups[g], width);
            const Coordinates to{d, how->shift + g * d, how->scale + g * d, nullptr};
            for (; from != end && !cancelled(pass->cancel_mark); from++)
                each_score<T>(pass, s, *from, how->weights, to,
                              [&](const Targets &y, int i, const double *score) {
                                  double *sum = sums.of(y.cluster[i]);
                                  for (int64_t j = 0; j < width; j++)
                                      sum[j] += score[j];
                              });
            sums.add_squares(out + g * triangle);
            clusters[g] = sums.n();
        });
    return cancelled(pass->cancel_mark) ? TK_CANCELLED : TK_OK;
}

} // namespace
} // namespace tusk

int tk_softmax_scores(const tk_pass *pass, const tk_softmax *softmax, const tk_robust *how,
                      double *out, int64_t *clusters) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            return clusters ? by_cluster<T>(pass, softmax, how, out, clusters)
                            : by_row<T>(pass, softmax, how, out);
        });
    });
}
