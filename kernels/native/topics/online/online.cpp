#include "online.hpp"

#include <algorithm>

#include "../../nets/arithmetic/random.hpp"
#include "../../shared/pool.hpp"

namespace tusk::topics {
namespace {

constexpr int64_t WORDS = 64;     // words that a thread takes at a time
constexpr double LEAST = 1e-10;   // scale below which it is multiplied into the numbers
constexpr double DEVIATION = 0.1; // of the initial lambda, as of Gamma(100, 1/100)

// Approximately normal with mean 1: a sum of four numbers of 16 bits.
float about_one(uint64_t bits) {
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)(bits >> 16 * i & 0xffff) * 0x1p-16;
    return (float)(1 + DEVIATION * (sum - 2) * 1.7320508075688772);
}

} // namespace

int Online::start(const tusk_group &group, const tk_topic_words *words, const tk_pass &pass,
                  tusk_memory *memory, tk_topics_about &about) {
    tk_topics_spec spec{spec_.topics, 1, spec_.alpha, spec_.beta, spec_.seed, spec_.spends, 0};
    int code = read_corpus(group, words, pass, spec, memory, about, corpus_);
    if (code == TK_OK)
        code = lambda_.take(memory, corpus_.words() * width_);
    if (code != TK_OK)
        return code;
    batch_.begin(corpus_, memory);
    const uint64_t seed = within(spec_.seed, 0);
    for (int64_t w = 0; w < corpus_.words(); w++) {
        if (w % WORDS == 0 && cancelled(pass.cancel_mark))
            return TK_CANCELLED;
        float *row = lambda_.data() + w * width_;
        for (int64_t k = 0; k < width_; k++)
            row[k] = k < spec_.topics ? about_one(hashed(seed + w * spec_.topics + k)) : 0;
    }
    add_up();
    return TK_OK;
}

void Online::add_up() {
    totals_.assign(width_, 0);
    for (int64_t w = 0; w < corpus_.words(); w++)
        for (int64_t k = 0; k < width_; k++)
            totals_[k] += lambda_.data()[w * width_ + k];
}

int Online::read_batch(int64_t from, int64_t to) {
    return batch_.read(corpus_, from, to, width_);
}

// exp(E[log phi]) of the words of the batch.
void Online::weigh_words(int threads) {
    std::vector<double> below(width_);
    double least = spec_.beta * (double)corpus_.words();
    for (int64_t k = 0; k < spec_.topics; k++)
        below[k] = 1 / exp_digamma(vpart{} + (least + scale_ * totals_[k]))[0];
    int64_t n = batch_.words();
    parallel_for((n + WORDS - 1) / WORDS, threads, [&](int64_t task) {
        for (int64_t s = task * WORDS; s < std::min(n, (task + 1) * WORDS); s++) {
            const float *row = lambda_.data() + (int64_t)batch_.word(s) * width_;
            double *out = batch_.word_weight.data() + s * width_;
            for (int64_t k = 0; k < width_; k += PART) {
                vpart x, by;
                for (int i = 0; i < PART; i++)
                    x[i] = row[k + i];
                std::memcpy(&by, below.data() + k, sizeof by);
                x = exp_digamma<vpart>(x * scale_ + spec_.beta) * by;
                std::memcpy(out + k, &x, sizeof x);
            }
        }
    });
}

void Online::decay(double by) {
    scale_ *= by;
    if (scale_ >= LEAST)
        return;
    float left = (float)scale_;
    for (int64_t i = 0; i < corpus_.words() * width_; i++)
        lambda_.data()[i] *= left;
    scale_ = 1;
    add_up();
}

// lambda = (1 - rho) lambda + rho (beta + counts of the batch scaled to the corpus).
void Online::move(int threads) {
    double rho = std::pow(spec_.offset + (double)++steps_, -spec_.decay);
    decay(1 - rho);
    double by = rho * (double)corpus_.documents / (double)batch_.documents() / scale_;
    int64_t n = batch_.words(), tasks = (n + WORDS - 1) / WORDS;
    std::vector<double> added(tasks * width_);
    parallel_for(tasks, threads, [&](int64_t task) {
        std::vector<double> sum(width_);
        double *all = added.data() + task * width_;
        for (int64_t s = task * WORDS; s < std::min(n, (task + 1) * WORDS); s++) {
            std::fill(sum.begin(), sum.end(), 0.0);
            batch_.each_use(s, [&](uint32_t entry, uint32_t document) {
                const double *weight = batch_.weight.data() + (int64_t)document * width_;
                for (int64_t k = 0; k < width_; k += LANES)
                    store(&sum[k], load(&sum[k]) + load(weight + k) * batch_.ratio.data()[entry]);
            });
            const double *word = batch_.word_weight.data() + s * width_;
            float *row = lambda_.data() + (int64_t)batch_.word(s) * width_;
            for (int64_t k = 0; k < width_; k++) {
                double change = by * sum[k] * word[k];
                row[k] += (float)change;
                all[k] += change;
            }
        }
    });
    for (int64_t task = 0; task < tasks; task++)
        for (int64_t k = 0; k < width_; k++)
            totals_[k] += added[task * width_ + k];
}

int Online::pass_over(const tk_pass &pass, int threads) {
    for (int64_t from = 0; from < corpus_.documents; from += spec_.batch) {
        int code = ending(pass.cancel_mark, pass.deadline);
        if (code == TK_OK)
            code = read_batch(from, std::min<int64_t>(from + spec_.batch, corpus_.documents));
        if (code != TK_OK)
            return code;
        weigh_words(threads);
        code = infer(pass, threads, nullptr);
        if (code != TK_OK)
            return code;
        move(threads);
    }
    add_up();
    return TK_OK;
}

} // namespace tusk::topics
