// The dispersion of counts whose means are known: the likelihood of a negative binomial as a
// function of its size t = 1 / a, with its derivatives, and half the deviance. Lawless, Negative
// binomial and mixed Poisson regression, 1987.
#include <cmath>

#include "api.h"
#include "dense.hpp"
#include "sparse.hpp"

namespace tusk {
namespace {

constexpr double LARGE = 10;   // limit above which the asymptotic series have all digits
constexpr double SMALL = 2e-3; // ratio of counts to size up to which a series in 1 / t has all
                               // digits

// The first and second derivatives of log gamma, for x > 0. Abramowitz and Stegun, 6.3.18 and
// 6.4.12, after recurrences.
struct PolyGamma {
    double first = 0, second = 0;
    explicit PolyGamma(double x) {
        for (; x < LARGE; x += 1) {
            first -= 1 / x;
            second += 1 / (x * x);
        }
        double r = 1 / x, q = r * r;
        first += std::log(x) - r / 2 -
                 q * (1.0 / 12 - q * (1.0 / 120 - q * (1.0 / 252 - q * (1.0 / 240 - q / 132))));
        second +=
            r * (1 + r / 2 +
                 q * (1.0 / 6 - q * (1.0 / 30 - q * (1.0 / 42 - q * (1.0 / 30 - q * 5 / 66)))));
    }
};

// The terms of one row: log-likelihood without log y!, and its derivatives by t.
struct SizeTerms {
    double t, log_t, log_gamma;
    PolyGamma of_t;
    explicit SizeTerms(double size)
        : t(size), log_t(std::log(size)), log_gamma(std::lgamma(size)), of_t(size) {}
    // The same for large t, by the first terms of the series in a = 1 / t, which is sum_k (-a)^k /
    // -k (sum_{j < y} j^k + k / (k + 1) mean^(k + 1) - y mean^k): the numbers above differ by less
    // than their rounding there.
    void add_near_poisson(double m, double mean, double y, double weight, double *out) const {
        double n = y - 1, s = n * y, a = 1 / t, power = mean, sign = a;
        const double sums[] = {s / 2, s * (2 * n + 1) / 6, s * s / 4,
                               s * (2 * n + 1) * (3 * s - 1) / 30, s * s * (2 * s - 1) / 12};
        double value = 0, first = 0, second = 0; // sum c_k a^k, by a times a, twice
        for (int k = 1; k <= 5; k++, power *= mean, sign *= -a) {
            double term = sign * (sums[k - 1] / k + power * (mean / (k + 1) - y / k));
            value += term;
            first += k * term;
            second += k * (k + 1) * term;
        }
        out[0] += weight * (y * m - mean + value);
        out[1] -= weight * a * first;
        out[2] += weight * a * a * second;
    }
    void add(double m, double y, double weight, double *out) const {
        double mean = std::exp(m), whole = mean + t, ratio = (y + t) / whole;
        if (std::max(mean, y) + 1 < SMALL * t)
            return add_near_poisson(m, mean, y, weight, out);
        double log_share = std::log1p(mean / t); // log(whole / t)
        PolyGamma with(y + t);
        out[0] += weight * (std::lgamma(y + t) - log_gamma - t * log_share +
                            (y > 0 ? y * (m - log_t - log_share) : 0));
        out[1] += weight * (with.first - of_t.first - log_share + (mean - y) / whole);
        out[2] += weight * (with.second - of_t.second + 1 / t - 2 / whole + ratio / whole);
    }
};

template <class T>
int size_likelihood(const tk_pass *pass, const double *weights, const double *size, double *out) {
    int64_t d = pass->groups[0].dim;
    bool sparse = tusk_is_sparse(pass->groups[0].kind);
    const PaddedWeights padded = sparse ? PaddedWeights() : PaddedWeights(pass, weights);
    auto chunks = make_chunks(pass, chunk_rows_for(pass));
    return sum_over_chunks(pass, chunks, 4, out, [&](const Chunk &c, double *acc) {
        const double *w = weights + c.group * (d + 1);
        const SizeTerms terms(size[c.group]);
        alignas(64) double m[BLOCK_ROWS];
        auto add = [&](const Targets &y, int n) {
            add_offsets(y, n, m);
            for (int i = 0; i < n; i++)
                terms.add(m[i], y.y[i], y.weight ? y.weight[i] : 1, acc);
            acc[3] += weight_of(y, n);
        };
        if (sparse)
            for_sparse_blocks<T>(c, BLOCK_ROWS, [&](const SparseBlock<T> &x) {
                margins(x, w, w[d], m);
                add(x.y, x.n);
            });
        else
            for_dense_blocks<T>(c, d, block_rows<T>(d),
                                [&](const auto &x, const Targets &y, int n) {
                                    margins(x, n, d, padded.of(c.group), w[d], m);
                                    add(y, n);
                                });
    });
}

} // namespace
} // namespace tusk

int tk_size_likelihood(const tk_pass *pass, const double *weights, const double *size,
                       double *out) {
    using namespace tusk;
    return code_of([&] {
        return with_storage(pass, [&]<class T>(const T *) {
            return size_likelihood<T>(pass, weights, size, out);
        });
    });
}
