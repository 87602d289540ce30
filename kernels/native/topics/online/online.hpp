// Topics of one group's documents by online variational Bayes.
#pragma once

#include <vector>

#include "../corpus.hpp"
#include "../special.hpp"
#include "api.h"
#include "batch.hpp"

namespace tusk::topics {

// gamma of a document, and exp(E[log theta]).
struct Posterior {
    double *gamma, *weight; // (width,)
    double *ratio;          // of each entry of the document, count / p(word)
};

class Sections;

class Online {
public:
    explicit Online(const tk_online_spec &spec)
        : spec_(spec), width_((spec.topics + LANES - 1) / LANES * LANES) {}

    // Return tk_codes, like the functions of api.h.
    int start(const tusk_group &group, const tk_topic_words *words, const tk_pass &pass,
              tusk_memory *memory, tk_topics_about &about);
    int pass_over(const tk_pass &pass, int threads);
    int bound(const tk_pass &pass, int threads, double *out);

    int64_t bytes(const tk_topic_words *words) const;
    void write(const tk_topic_words *words, char *out) const;
    void copy_lambda(bool set, double *values);

private:
    int read_batch(int64_t from, int64_t to);
    void weigh_words(int threads);
    int infer(const tk_pass &pass, int threads, double *score);
    bool fit(const tk_pass &pass, const Batch::Document &d, Posterior p, double *score) const;
    void step(const Batch::Document &d, Posterior p, double *next) const;
    double score_of(const Batch::Document &d, Posterior p) const;
    double score_of_topics(const tk_pass &pass, int threads) const;
    void move(int threads);
    void decay(double by);
    void add_up();
    double share(uint32_t word, int64_t k) const {
        return scale_ * lambda_.data()[(int64_t)word * width_ + k];
    }
    bool keeps(double share) const { return share > 1e-3 * spec_.beta; }
    int64_t entries_of(uint32_t word) const;
    void write_entries(double *totals, int64_t n, Sections &sections) const;
    template <class Body> void each_share(uint32_t word, Body body) const;

    tk_online_spec spec_;
    int64_t width_; // number of topics, padded with some that no word has
    Corpus corpus_;
    Charged<float> lambda_;      // (W, width); lambda is beta + scale times this
    std::vector<double> totals_; // (width,), sums of lambda_ over words
    double scale_ = 1;
    int64_t steps_ = 0;
    Batch batch_;
};

} // namespace tusk::topics
