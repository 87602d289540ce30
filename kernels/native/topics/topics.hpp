// The topics of one group's documents, and operations on them.
#pragma once

#include <vector>

#include "corpus.hpp"
#include "counts.hpp"

namespace tusk::topics {

class Model {
public:
    Model(const tk_topics_spec &spec) : spec_(spec), width_(spec.topics) {}

    // Return tk_codes, like the functions of api.h.
    int start(const tusk_group &group, const tk_topic_words *words, const tk_pass &pass,
              tusk_memory *memory, tk_topics_about &about);
    int sweep(const tk_pass &pass, int threads);
    double likelihood(const tk_pass &pass, int threads) const;
    int optimize(const tk_pass &pass, int64_t steps);

    int64_t bytes(const tk_topic_words *words) const;
    void write(const tk_topic_words *words, char *out) const;
    void copy(int64_t *start, uint32_t *word, uint16_t *topic) const;
    int64_t tokens() const { return corpus_.tokens; }

private:
    double smoothing() const { return spec_.beta * (double)corpus_.words(); }
    void begin(const tk_pass &pass, int32_t window, int32_t block, std::vector<int32_t> &totals);
    int round(const tk_pass &pass, int threads, int32_t window, int32_t number);
    template <class W>
    bool visit(const tk_pass &pass, const W *words, int64_t part, int32_t block,
               std::vector<int32_t> &totals);
    void look_ahead(int32_t window) const;
    double words_likelihood(const tk_pass &pass, int threads) const;
    double documents_likelihood(const tk_pass &pass, int threads) const;
    int64_t entries() const;

    tk_topics_spec spec_;
    Width width_;
    Corpus corpus_;
    Counts counts_;
    Charged<uint16_t> topic_;
    std::vector<double> alpha_;
    std::vector<int64_t> totals_;
    int64_t sweeps_ = 0;
    std::vector<std::vector<int32_t>> after_; // by part, its totals after a round
};

} // namespace tusk::topics
