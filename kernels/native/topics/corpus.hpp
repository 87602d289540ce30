// The documents of a group as tokens, in an order that depends on their content alone.
#pragma once

#include <memory>
#include <vector>

#include "../shared/charged.hpp"
#include "api.h"

namespace tusk::topics {

constexpr uint32_t ABSENT = UINT32_MAX;

// Tokens of a document lie together, those of one block of words again, and then those of one
// word. Words have places: block by block, the most frequent ones of each block first.
struct Corpus {
    int64_t tokens = 0, documents = 0, table = 0; // table: V, words in the model
    int32_t parts = 1;                            // and blocks of words
    Charged<uint32_t> word;                       // (tokens,), places
    Charged<uint32_t> begin;                      // (documents * parts + 1,), of the first token
    std::vector<int64_t> first_document;          // (parts + 1,)
    std::vector<uint32_t> first_word;             // (parts + 1,), places
    std::vector<uint32_t> frequency;              // (W,), by place
    std::vector<uint32_t> place;                  // (V,), ABSENT: the word does not occur
    std::vector<uint32_t> number;                 // (W,), of the words that have places
    std::vector<uint32_t> sorted;                 // (V,), ids by the order of their words; or none

    int64_t words() const { return (int64_t)frequency.size(); }
    uint32_t start(int64_t document) const { return begin.data()[document * parts]; }
};

// Reads a group's documents. A tk_code; with TK_REFUSED `about` says why.
int read_corpus(const tusk_group &group, const tk_topic_words *words, const tk_pass &pass,
                int32_t parts, tusk_memory *memory, tk_topics_about &about, Corpus &out);

} // namespace tusk::topics
