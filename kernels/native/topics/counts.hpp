// Counts of topics by word: rows of all topics for frequent words, lists for rare ones.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "../shared/charged.hpp"
#include "corpus.hpp"
#include "lanes.hpp"

namespace tusk::topics {

// Topics are padded so that the lanes of a row of counts make as many chains as it takes to add
// them without waiting.
struct Width {
    explicit Width(int32_t topics)
        : topics(topics), chains(topics <= 2 * WIDE    ? 1
                                 : topics <= 16 * WIDE ? 2
                                                       : 4) {
        int32_t unit = chains * WIDE;
        padded = (topics + unit - 1) / unit * unit;
        blocks = padded / unit;
    }
    int32_t topics, chains, padded, blocks; // blocks: vectors in a chain
};

// An entry of a list has a topic in its high half, and its count in the low one.
inline int32_t entry_of(uint32_t topic, uint32_t n) {
    return (int32_t)(topic << 16 | n);
}

class Counts {
public:
    // A word with fewer tokens than this has a list, which is shorter than a row.
    static int64_t list_below(const Width &w) {
        return std::min<int64_t>(std::max<int64_t>(w.padded / 4, 8), UINT16_MAX);
    }

    // one: there is room for any one block instead of all.
    int lay_out(const Corpus &corpus, const Width &width, tusk_memory *memory, bool one = false) {
        width_ = width;
        int64_t rare = list_below(width), words = corpus.words();
        at_.resize(words);
        used_.assign(words, ROW);
        int64_t size = 0, most = 0;
        for (int32_t b = 0; b < corpus.parts; b++) {
            size = one ? 0 : size;
            for (int64_t w = corpus.first_word[b]; w < (int64_t)corpus.first_word[b + 1]; w++) {
                bool list = corpus.frequency[w] < rare;
                at_[w] = size;
                size += list ? corpus.frequency[w] : width.padded;
                used_[w] = list ? 0 : ROW;
            }
            size = (size + WIDE - 1) / WIDE * WIDE + WIDE; // lists are read by whole vectors
            most = std::max(most, size);
        }
        size_ = most;
        int code = table_.take(memory, size_);
        if (code == TK_OK)
            std::fill_n(table_.data(), size_, 0);
        return code;
    }

    // Forgets the counts of the block that was there, for those of the words from `first` to
    // `end`.
    void clear(uint32_t first, uint32_t end) {
        std::fill_n(table_.data(), size_, 0);
        for (uint32_t w = first; w < end; w++)
            if (!is_row(w))
                used_[w] = 0;
    }

    // Sets a count that was 0; lists get them in the order of the calls.
    void set(uint32_t word, uint16_t topic, uint32_t times) {
        if (is_row(word))
            at(word)[topic] = (int32_t)times;
        else
            at(word)[used_[word]++] = entry_of(topic, times);
    }

    bool is_row(uint32_t word) const { return used_[word] == ROW; }
    int32_t *at(uint32_t word) const { return table_.data() + at_[word]; }
    uint16_t listed(uint32_t word) const { return used_[word]; }

    void add(uint32_t word, uint32_t topic) {
        int32_t *row = at(word);
        if (is_row(word)) {
            row[topic]++;
            return;
        }
        int32_t n = used_[word], i = find(row, n, topic);
        if (i < n)
            row[i]++;
        else
            row[used_[word]++] = entry_of(topic, 1);
    }

    void remove(uint32_t word, uint32_t topic) {
        int32_t *row = at(word);
        if (is_row(word)) {
            row[topic]--;
            return;
        }
        int32_t i = find(row, used_[word], topic);
        if ((--row[i] & 0xffff) == 0)
            row[i] = row[--used_[word]];
    }

    // Calls body(topic, n) for the topics of a word; for a list in its order.
    template <class Body> void each(uint32_t word, Body body) const {
        const int32_t *row = at(word);
        if (is_row(word)) {
            for (int32_t k = 0; k < width_.topics; k++)
                if (row[k])
                    body((uint32_t)k, (uint32_t)row[k]);
            return;
        }
        for (int32_t i = 0; i < used_[word]; i++)
            body((uint32_t)row[i] >> 16, (uint32_t)row[i] & 0xffff);
    }

private:
    static constexpr uint16_t ROW = UINT16_MAX;

    static int32_t find(const int32_t *row, int32_t n, uint32_t topic) {
        int32_t i = 0;
        while (i < n && (uint32_t)row[i] >> 16 != topic)
            i++;
        return i;
    }

    Width width_{1};
    Charged<int32_t> table_;
    int64_t size_ = 0;
    std::vector<int64_t> at_;    // by word
    std::vector<uint16_t> used_; // entries of a list, or ROW
};

} // namespace tusk::topics
