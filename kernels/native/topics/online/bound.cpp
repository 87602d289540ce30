// The bound of the log-likelihood that variational Bayes maximises: Hoffman et al., equation 1.
#include <cfloat>
#include <numeric>

#include "../../shared/pool.hpp"
#include "online.hpp"

namespace tusk::topics {
namespace {

constexpr int64_t WORDS = 512; // in a sum that one thread computes

} // namespace

// E[log p(words | theta, phi)] + E[log p(theta)] - E[log q(theta)] of a document.
double Online::score_of(const Batch::Document &d, Posterior p) const {
    double score = 0, all = 0;
    for (int64_t e = 0; e < d.n; e++) {
        double count = batch_.count.data()[d.first + e];
        score += count * std::log(std::max(count / p.ratio[e] - DBL_EPSILON, DBL_MIN));
    }
    for (int64_t k = 0; k < spec_.topics; k++)
        all += p.gamma[k];
    double below = digamma(all), before = log_gamma(spec_.alpha);
    for (int64_t k = 0; k < spec_.topics; k++) {
        double gamma = p.gamma[k];
        score += (spec_.alpha - gamma) * (digamma(gamma) - below) + log_gamma(gamma) - before;
    }
    return score + log_gamma(spec_.alpha * spec_.topics) - log_gamma(all);
}

// E[log p(phi)] - E[log q(phi)] of all topics.
double Online::score_of_topics(const tk_pass &pass, int threads) const {
    const double beta = spec_.beta, before = log_gamma(beta);
    const int64_t words = corpus_.words(), topics = spec_.topics;
    std::vector<double> below(topics), sums((words + WORDS - 1) / WORDS);
    double score = 0;
    for (int64_t k = 0; k < topics; k++) {
        double all = beta * (double)words + scale_ * totals_[k];
        below[k] = digamma(all);
        score += log_gamma(beta * (double)words) - log_gamma(all);
    }
    parallel_for((int64_t)sums.size(), threads, [&](int64_t range) {
        for (int64_t w = range * WORDS; w < std::min(words, (range + 1) * WORDS); w++) {
            if (cancelled(pass.cancel_mark))
                return;
            for (int64_t k = 0; k < topics; k++) {
                double lambda = beta + share((uint32_t)w, k);
                sums[range] +=
                    (beta - lambda) * (digamma(lambda) - below[k]) + log_gamma(lambda) - before;
            }
        }
    });
    return std::accumulate(sums.begin(), sums.end(), score);
}

int Online::bound(const tk_pass &pass, int threads, double *out) {
    double score = 0;
    *out = 0;
    if (!corpus_.tokens)
        return TK_OK;
    std::vector<double> scores(spec_.batch);
    for (int64_t from = 0; from < corpus_.documents; from += spec_.batch) {
        int code = read_batch(from, std::min<int64_t>(from + spec_.batch, corpus_.documents));
        if (code != TK_OK)
            return code;
        weigh_words(threads);
        code = infer(pass, threads, scores.data());
        if (code != TK_OK)
            return code;
        score = std::accumulate(scores.begin(), scores.begin() + batch_.documents(), score);
    }
    *out = score + score_of_topics(pass, threads);
    return cancelled(pass.cancel_mark) ? TK_CANCELLED : TK_OK;
}

} // namespace tusk::topics
