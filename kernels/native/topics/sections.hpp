// The bytes of a model, in the layout of kernels/topics/blob.py.
#pragma once

#include <cstring>
#include <vector>

#include "api.h"

namespace tusk::topics {

struct Head {
    uint32_t version, topics, table, flags;
    uint64_t entries, text;
    double beta;
    uint64_t tokens, words, documents;
};
static_assert(sizeof(Head) == 64);
constexpr uint32_t VERSION = 1, HAS_WORDS = 1, HAS_SHARES = 2;

inline int64_t padded(int64_t bytes) {
    return (bytes + 7) & ~(int64_t)7;
}

// Writes consecutive sections, each padded with zeros.
class Sections {
public:
    explicit Sections(char *out) : at_(out) {}
    template <class T> T *next(int64_t n) {
        char *section = at_;
        int64_t size = n * (int64_t)sizeof(T);
        at_ += padded(size);
        std::memset(section + size, 0, padded(size) - size);
        return (T *)section;
    }

private:
    char *at_;
};

inline int64_t text_bytes(const tk_topic_words *words) {
    return words ? words->offsets[words->n] - words->offsets[0] : 0;
}

inline void write_words(const tk_topic_words &words, const std::vector<uint32_t> &sorted,
                        Sections &out) {
    uint32_t *offset = out.next<uint32_t>(words.n + 1);
    char *text = out.next<char>(text_bytes(&words));
    uint32_t at = 0;
    for (uint32_t id : sorted) {
        int64_t from = words.offsets[id], n = words.offsets[id + 1] - from;
        *offset++ = at;
        std::memcpy(text + at, words.text + from, n);
        at += (uint32_t)n;
    }
    *offset = at;
}

} // namespace tusk::topics
