// The joint log-likelihood of words and topics, and the optimal prior for the topics.
#include <cmath>
#include <numeric>

#include "../shared/pool.hpp"
#include "special.hpp"
#include "topics.hpp"

namespace tusk::topics {
namespace {

constexpr int64_t DOCUMENTS = 1024, WORDS = 4096; // in a sum that one thread computes

// Sums body(from, to) over ranges, in order whatever the threads. A cancel leaves some out.
template <class Body>
double sum_by(int64_t n, int64_t size, const tk_pass &pass, int threads, Body body) {
    std::vector<double> sums((n + size - 1) / size);
    parallel_for((int64_t)sums.size(), threads, [&](int64_t at) {
        if (!cancelled(pass.cancel_mark))
            sums[at] = body(at * size, std::min(n, (at + 1) * size));
    });
    return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// The topics of a document with their counts.
class Tally {
public:
    explicit Tally(int32_t topics) : n_(topics) {}
    template <class Body> void each(const uint16_t *topic, int64_t n, Body body) {
        seen_.clear();
        for (int64_t i = 0; i < n; i++)
            if (n_[topic[i]]++ == 0)
                seen_.push_back(topic[i]);
        for (uint16_t k : seen_) {
            body(k, n_[k]);
            n_[k] = 0;
        }
    }

private:
    std::vector<uint32_t> n_;
    std::vector<uint16_t> seen_;
};

} // namespace

double Model::likelihood(const tk_pass &pass, int threads) const {
    if (!corpus_.tokens)
        return 0;
    return documents_likelihood(pass, threads) + words_likelihood(pass, threads);
}

double Model::documents_likelihood(const tk_pass &pass, int threads) const {
    double sum = std::accumulate(alpha_.begin(), alpha_.end(), 0.0);
    std::vector<double> before(alpha_.size());
    for (size_t k = 0; k < alpha_.size(); k++)
        before[k] = log_gamma(alpha_[k]);
    return sum_by(corpus_.documents, DOCUMENTS, pass, threads, [&](int64_t from, int64_t to) {
        Tally tally(spec_.topics);
        double log = 0;
        for (int64_t d = from; d < to; d++) {
            uint32_t first = corpus_.start(d), n = corpus_.start(d + 1) - first;
            log += log_gamma(sum) - log_gamma(sum + n);
            tally.each(topic_.data() + first, n, [&](uint16_t k, uint32_t times) {
                log += log_gamma(alpha_[k] + times) - before[k];
            });
        }
        return log;
    });
}

double Model::words_likelihood(const tk_pass &pass, int threads) const {
    double beta = spec_.beta, before = log_gamma(beta), all = 0;
    for (int64_t total : totals_)
        all += log_gamma(smoothing()) - log_gamma(smoothing() + (double)total);
    return all + sum_by(corpus_.words(), WORDS, pass, threads, [&](int64_t from, int64_t to) {
               double log = 0;
               std::vector<uint32_t>
                   times; // in the order of their size: lists have none of their own
               for (int64_t w = from; w < to; w++) {
                   times.clear();
                   counts_.each((uint32_t)w, [&](uint32_t, uint32_t n) { times.push_back(n); });
                   std::sort(times.begin(), times.end());
                   for (uint32_t n : times)
                       log += log_gamma(beta + n) - before;
               }
               return log;
           });
}

int Model::count_occurrences(const tk_pass &pass, Occurrences &out) const {
    out.more.assign(spec_.topics, {});
    auto count = [](std::vector<uint32_t> &of, uint32_t n) {
        if (of.size() < n)
            of.resize(n);
        of[n - 1]++;
    };
    Tally tally(spec_.topics);
    for (int64_t d = 0; d < corpus_.documents; d++) {
        if (d % DOCUMENTS == 0 && cancelled(pass.cancel_mark))
            return TK_CANCELLED;
        uint32_t first = corpus_.start(d), n = corpus_.start(d + 1) - first;
        count(out.longer, n);
        tally.each(topic_.data() + first, n,
                   [&](uint16_t k, uint32_t times) { count(out.more[k], times); });
    }
    auto cumulate = [](std::vector<uint32_t> &of) {
        for (size_t i = of.size(); i-- > 1;)
            of[i - 1] += of[i];
    };
    cumulate(out.longer);
    for (auto &one : out.more)
        cumulate(one);
    return TK_OK;
}

namespace {

// Sums over documents of psi(alpha_k + n_dk) - psi(alpha_k), and as the last one of the same of
// the sum of alpha. psi(x + n) - psi(x) is the sum of 1 / (x + i) below n.
void add_digammas(const Occurrences &seen, const double *alpha, double *out) {
    auto digammas = [](const std::vector<uint32_t> &of, double x) {
        double sum = 0;
        for (size_t i = 0; i < of.size(); i++)
            sum += of[i] / (x + (double)i);
        return sum;
    };
    size_t topics = seen.more.size();
    for (size_t k = 0; k < topics; k++)
        out[k] = digammas(seen.more[k], alpha[k]);
    out[topics] = digammas(seen.longer, std::accumulate(alpha, alpha + topics, 0.0));
}

} // namespace

int Model::optimize(const tk_pass &pass, int64_t steps) {
    Occurrences seen;
    if (int code = count_occurrences(pass, seen))
        return code;
    std::vector<double> terms(spec_.topics + 1);
    for (int64_t step = 0; step < steps; step++) {
        add_digammas(seen, alpha_.data(), terms.data());
        for (int32_t k = 0; k < spec_.topics; k++)
            alpha_[k] = std::max(1e-5, alpha_[k] * terms[k] / terms[spec_.topics]);
    }
    return TK_OK;
}

double Model::documents_likelihood(const tk_pass &pass, const double *alpha) {
    alpha_.assign(alpha, alpha + spec_.topics);
    return documents_likelihood(pass, pass.threads);
}

int Model::alpha_terms(const tk_pass &pass, const double *alpha, double *out) {
    Occurrences seen;
    int code = count_occurrences(pass, seen);
    if (code == TK_OK)
        add_digammas(seen, alpha, out);
    return code;
}

} // namespace tusk::topics
