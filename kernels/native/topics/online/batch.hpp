// The documents of a batch, by document and by word.
#pragma once

#include <vector>

#include "../../shared/charged.hpp"
#include "../corpus.hpp"

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
