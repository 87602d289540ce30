// Models as bytes, in the layout of kernels/topics/blob.py, and copies of tokens.
#include <algorithm>
#include <utility>

#include "sections.hpp"
#include "topics.hpp"

namespace tusk::topics {
int64_t Model::entries() const {
    int64_t n = 0;
    for (uint32_t w = 0; w < corpus_.words(); w++)
        counts_.each(w, [&](uint32_t, uint32_t) { n++; });
    return n;
}

int64_t Model::bytes(const tk_topic_words *words) const {
    int64_t n = entries(), size = sizeof(Head) + 16 * (int64_t)spec_.topics;
    size += padded(4 * (corpus_.table + 1)) + padded(2 * n) + padded(4 * n);
    return words ? size + padded(4 * (words->n + 1)) + padded(text_bytes(words)) : size;
}

void Model::write(const tk_topic_words *words, char *out) const {
    uint64_t n = (uint64_t)entries();
    Head head{VERSION,
              (uint32_t)spec_.topics,
              (uint32_t)corpus_.table,
              words ? HAS_WORDS : 0,
              n,
              (uint64_t)text_bytes(words),
              spec_.beta,
              (uint64_t)corpus_.tokens,
              (uint64_t)corpus_.words(),
              (uint64_t)corpus_.documents};
    Sections sections(out);
    std::memcpy(sections.next<Head>(1), &head, sizeof head);
    std::copy(alpha_.begin(), alpha_.end(), sections.next<double>(spec_.topics));
    std::copy(totals_.begin(), totals_.end(), sections.next<double>(spec_.topics));
    uint32_t *start = sections.next<uint32_t>(corpus_.table + 1);
    uint16_t *topic = sections.next<uint16_t>((int64_t)n);
    uint32_t *times = sections.next<uint32_t>((int64_t)n), at = 0;
    std::vector<std::pair<uint32_t, uint32_t>> entries;
    for (int64_t w = 0; w < corpus_.table; w++) {
        *start++ = at;
        if (corpus_.place[w] == ABSENT)
            continue;
        entries.clear();
        counts_.each(corpus_.place[w],
                     [&](uint32_t k, uint32_t m) { entries.emplace_back(k, m); });
        std::sort(entries.begin(), entries.end());
        for (auto [k, m] : entries) {
            topic[at] = (uint16_t)k;
            times[at++] = m;
        }
    }
    *start = at;
    if (words)
        write_words(*words, corpus_.sorted, sections);
}

void Model::copy(int64_t *start, uint32_t *word, uint16_t *topic) const {
    for (int64_t d = 0; d <= corpus_.documents; d++)
        start[d] = corpus_.documents ? corpus_.start(d) : 0;
    std::copy_n(topic_.data(), corpus_.tokens, topic);
    corpus_.with_words([&](auto *words) {
        for (int64_t d = 0; d < corpus_.documents; d++)
            corpus_.each_block(d, [&](uint32_t first, uint32_t from, uint32_t to) {
                for (uint32_t i = from; i < to; i++)
                    word[i] = corpus_.number[first + words[i]];
            });
    });
}

} // namespace tusk::topics
