// The documents of a group as tokens, in an order that depends on their content alone.
#pragma once

#include <memory>
#include <vector>

#include "../shared/charged.hpp"
#include "api.h"

namespace tusk::topics {

constexpr uint32_t ABSENT = UINT32_MAX;

// Tokens of a document are contiguous, and in it those of one block of words, and then those of
// one word. Words have indices: block by block, the most frequent ones of each block first. A
// token stores its word's index in the block, in 16 bits if no block has more words. Documents are
// read in windows of as many tokens as stay in memory while all blocks are drawn.
struct Corpus {
    int64_t tokens = 0, documents = 0, table = 0; // table: V, words in the model
    int32_t parts = 1;                            // and blocks of words
    int32_t windows = 1;
    bool narrow = false;                 // whether words have 16 bits
    Charged<char> word;                  // (tokens,)
    Charged<uint32_t> begin;             // (documents * parts + 1,), of the first token
    std::vector<int64_t> first_document; // (windows * parts + 1,), of each part of each window
    std::vector<uint32_t> first_word;    // (parts + 1,), indices
    std::vector<uint32_t> frequency;     // (W,), by index
    std::vector<uint32_t> place;         // (V,), ABSENT: the word does not occur
    std::vector<uint32_t> number;        // (W,), id of the word at each index
    std::vector<uint32_t> sorted;        // (V,), ids in the order of their words; or empty

    int64_t words() const { return (int64_t)frequency.size(); }
    uint32_t start(int64_t document) const { return begin.data()[document * parts]; }
    int64_t token_bytes() const { return narrow ? 2 : 4; }
    // Calls body(words), a pointer to the words of all tokens in their width.
    template <class Body> auto with_words(Body body) const {
        return narrow ? body((uint16_t *)word.data()) : body((uint32_t *)word.data());
    }
    // Calls body(first, from, to) for the tokens of a document block by block; first: the index of
    // the block's first word.
    template <class Body> void each_block(int64_t document, Body body) const {
        const uint32_t *at = begin.data() + document * parts;
        for (int32_t b = 0; b < parts; b++)
            body(first_word[b], at[b], at[b + 1]);
    }
};

// Reads a group's documents. Returns a tk_code; with TK_REFUSED `about` has the reason. spends:
// the rows are not read again, so those of a large group free their memory. table: of a part of a
// group, or NULL.
int read_corpus(const tusk_group &group, const tk_topic_words *words, const tk_pass &pass,
                const tk_topics_spec &spec, tusk_memory *memory, tk_topics_about &about,
                Corpus &out, const tk_topic_table *table = nullptr);

} // namespace tusk::topics
