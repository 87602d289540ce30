// Topics of one group's documents by online variational Bayes.
#pragma once

#include <vector>

#include "../../shared/charged.hpp"
#include "../corpus.hpp"
#include "../special.hpp"
#include "api.h"

// The documents of a batch, by document and by word.

namespace tusk::topics {

class Batch {
public:
    struct Document {
        int64_t number; // in the batch
        int64_t first;  // index of its first entry
        int64_t n;
    };

    void begin(const Corpus &corpus, tusk_memory *memory) {
        memory_ = memory;
        slot_.assign(corpus.words(), ABSENT);
    }
    // Reads documents from .. to - 1, and allocates vectors of this width. Returns a tk_code.
    int read(const Corpus &corpus, int64_t from, int64_t to, int64_t width);

    Document document(int64_t i) const { return {i, first_[i], first_[i + 1] - first_[i]}; }
    int64_t documents() const { return (int64_t)first_.size() - 1; }
    int64_t words() const { return (int64_t)word_.size(); }
    uint32_t word(int64_t slot) const { return word_[slot]; }
    // Calls body(entry, document) for the entries of a word, in the order of documents.
    template <class Body> void each_use(int64_t slot, Body body) const {
        for (int64_t i = use_begin_[slot]; i < use_begin_[slot + 1]; i++)
            body(use_.data()[i], of_.data()[use_.data()[i]]);
    }

    Charged<uint32_t> at;          // of each entry, the slot of its word
    Charged<double> count;         // of each entry
    Charged<double> ratio;         // of each entry, count / p(word)
    Charged<double> gamma, weight; // (documents, width)
    Charged<double> word_weight;   // (words, width), exp(E[log phi])

private:
    void clear();
    template <class W> void fill(const Corpus &corpus, const W *words, int64_t from, int64_t to);
    void list_uses();
    int make_room(int64_t entries);
    int grow(int64_t width);

    tusk_memory *memory_ = nullptr;
    std::vector<int64_t> first_;
    Charged<uint32_t> of_, use_; // of each entry, its document; the entries by word
    std::vector<uint32_t> word_, slot_;
    std::vector<int64_t> use_begin_;
    int64_t has_entries_ = 0, has_documents_ = 0, has_words_ = 0;
};

} // namespace tusk::topics

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
