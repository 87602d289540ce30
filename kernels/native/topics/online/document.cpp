// The posterior of a document's topics with those of the words fixed: Hoffman et al., algorithm 1.
#include <cfloat>
#include <numeric>

#include "../../shared/pool.hpp"
#include "online.hpp"

namespace tusk::topics {
namespace {

constexpr int64_t DOCUMENTS = 8; // documents that a thread takes at a time

double sum_of(const double *x, int64_t n) {
    return std::accumulate(x, x + n, 0.0);
}

// exp(E[log theta]) of Dirichlet(gamma).
void weigh(const double *gamma, int64_t topics, int64_t width, double *weight) {
    double all = 1 / exp_digamma(vpart{} + sum_of(gamma, topics))[0];
    for (int64_t k = 0; k < width; k += PART) {
        vpart x;
        std::memcpy(&x, gamma + k, sizeof x);
        x = exp_digamma(x) * all;
        std::memcpy(weight + k, &x, sizeof x);
    }
}

double dot(const double *a, const double *b, int64_t n) {
    v8d sums[2] = {};
    for (int64_t k = 0; k < n; k += LANES)
        sums[k / LANES % 2] += load(a + k) * load(b + k);
    return sum(sums[0] + sums[1]);
}

} // namespace

// next = alpha + weight sum over entries of count / p(word) exp(E[log phi]).
void Online::step(const Batch::Document &d, Posterior p, double *next) const {
    const double *words = batch_.word_weight.data();
    std::fill_n(next, width_, 0.0);
    for (int64_t e = 0; e < d.n; e++) {
        const double *word = words + (int64_t)batch_.at.data()[d.first + e] * width_;
        double ratio =
            batch_.count.data()[d.first + e] / (dot(p.weight, word, width_) + DBL_EPSILON);
        p.ratio[e] = ratio;
        for (int64_t k = 0; k < width_; k += LANES)
            store(next + k, load(next + k) + load(word + k) * ratio);
    }
    for (int64_t k = 0; k < width_; k += LANES)
        store(next + k, load(next + k) * load(p.weight + k) + spec_.alpha);
}

bool Online::fit(const tk_pass &pass, const Batch::Document &d, Posterior p, double *score) const {
    std::vector<double> next(width_);
    std::fill_n(p.gamma, width_, 1.0);
    weigh(p.gamma, spec_.topics, width_, p.weight);
    for (int64_t i = 0; i < spec_.steps; i++) {
        if (cancelled(pass.cancel_mark))
            return false;
        step(d, p, next.data());
        double change = 0;
        for (int64_t k = 0; k < spec_.topics; k++)
            change += std::fabs(next[k] - p.gamma[k]);
        std::copy(next.begin(), next.end(), p.gamma);
        weigh(p.gamma, spec_.topics, width_, p.weight);
        if (change < spec_.tolerance * spec_.topics)
            break;
    }
    step(d, p, next.data()); // the ratios by the last weights
    if (score)
        *score = score_of(d, p);
    return true;
}

// score: of each document of the batch, its part of the bound; NULL: not computed.
int Online::infer(const tk_pass &pass, int threads, double *score) {
    int64_t n = batch_.documents();
    parallel_for((n + DOCUMENTS - 1) / DOCUMENTS, threads, [&](int64_t task) {
        for (int64_t i = task * DOCUMENTS; i < std::min(n, (task + 1) * DOCUMENTS); i++) {
            Batch::Document d = batch_.document(i);
            Posterior p{batch_.gamma.data() + i * width_, batch_.weight.data() + i * width_,
                        batch_.ratio.data() + d.first};
            if (!fit(pass, d, p, score ? score + i : nullptr))
                return;
        }
    });
    return cancelled(pass.cancel_mark) ? TK_CANCELLED : TK_OK;
}

} // namespace tusk::topics
