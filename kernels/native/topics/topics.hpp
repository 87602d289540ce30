// The topics of one group's documents, and operations on them.
#pragma once

#include <vector>

#include "corpus.hpp"
#include "counts.hpp"
#include "draw.hpp"

namespace tusk::topics {

// The number of documents that have a topic, or tokens, more than i times.
struct Occurrences {
    std::vector<std::vector<uint32_t>> more; // by topic and i
    std::vector<uint32_t> longer;            // by i
};

class Model {
public:
    Model(const tk_topics_spec &spec) : spec_(spec), width_(spec.topics) {}

    // Return tk_codes, like the functions of api.h.
    int start(const tusk_group &group, const tk_topic_words *words, const tk_pass &pass,
              tusk_memory *memory, tk_topics_about &about);
    int sweep(const tk_pass &pass, int threads);
    double likelihood(const tk_pass &pass, int threads) const;
    int optimize(const tk_pass &pass, int64_t steps);

    // A part of a group's documents, of whose words it has the counts of one block at a time.
    int start_part(const tusk_group &group, const tk_topic_table &table, const tk_pass &pass,
                   tusk_memory *memory, tk_topics_about &about);
    int visit(const tk_pass &pass, const tk_topics_visit &visit, int64_t *totals);
    int64_t block_words(int32_t block) const;
    int64_t block_counts(int32_t block) const;
    void write_block(int32_t block, uint32_t *listed, uint16_t *topic, uint32_t *times) const;
    void write_places(int32_t block, uint32_t *place) const;
    void state(bool set, uint16_t *topic);
    double documents_likelihood(const tk_pass &pass, const double *alpha);
    int alpha_terms(const tk_pass &pass, const double *alpha, double *out);

    int64_t bytes(const tk_topic_words *words) const;
    void write(const tk_topic_words *words, char *out) const;
    void copy(int64_t *start, uint32_t *word, uint16_t *topic) const;
    int64_t tokens() const { return corpus_.tokens; }

private:
    double smoothing() const { return spec_.beta * (double)corpus_.words(); }
    void draw_first(int64_t from, int64_t to);
    void count_tokens(const tk_pass &pass, int64_t from, int64_t to, int32_t block,
                      std::vector<int32_t> &totals);
    class Rotation;
    int rotate(const tk_pass &pass, int threads, int32_t window);
    // Draws the tokens of some documents with words of a block; false: a cancel or the deadline
    // ended it.
    bool draw(const tk_pass &pass, int64_t from, int64_t to, int32_t block, Place &place);
    template <class W>
    bool draw_words(const tk_pass &pass, const W *words, int64_t from, int64_t to, int32_t block,
                    Place &place);
    void look_ahead(int32_t window) const;
    double words_likelihood(const tk_pass &pass, int threads) const;
    double documents_likelihood(const tk_pass &pass, int threads) const;
    int64_t entries() const;
    int count_occurrences(const tk_pass &pass, Occurrences &out) const;

    tk_topics_spec spec_;
    Width width_;
    Corpus corpus_;
    Counts counts_;
    Charged<uint16_t> topic_;
    std::vector<double> alpha_;
    std::vector<int64_t> totals_;
    int64_t sweeps_ = 0;
};

} // namespace tusk::topics
