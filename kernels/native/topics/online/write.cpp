// Models of variational Bayes as bytes: counts are lambda - beta, and lambda over its sum is
// E[phi].
#include <algorithm>

#include "../sections.hpp"
#include "online.hpp"

namespace tusk::topics {

// Calls body(topic, share) for the topics of a word beyond beta, except for a thousandth of their
// sum.
template <class Body> void Online::each_share(uint32_t word, Body body) const {
    for (int32_t k = 0; k < spec_.topics; k++)
        if (double found = share(word, k); keeps(found))
            body((uint16_t)k, (float)found);
}

// A word that occurs has at least one entry, by which readers recognise it.
int64_t Online::entries_of(uint32_t word) const {
    int64_t n = 0;
    each_share(word, [&](uint16_t, float) { n++; });
    return std::max<int64_t>(n, 1);
}

int64_t Online::bytes(const tk_topic_words *words) const {
    int64_t n = 0, size = sizeof(Head) + 16 * (int64_t)spec_.topics;
    for (uint32_t w = 0; w < corpus_.words(); w++)
        n += entries_of(w);
    size += padded(4 * (corpus_.table + 1)) + padded(2 * n) + padded(4 * n);
    return words ? size + padded(4 * (words->n + 1)) + padded(text_bytes(words)) : size;
}

void Online::write(const tk_topic_words *words, char *out) const {
    uint64_t n = 0;
    for (uint32_t w = 0; w < corpus_.words(); w++)
        n += (uint64_t)entries_of(w);
    Head head{VERSION,
              (uint32_t)spec_.topics,
              (uint32_t)corpus_.table,
              (words ? HAS_WORDS : 0) | HAS_SHARES,
              n,
              (uint64_t)text_bytes(words),
              spec_.beta,
              (uint64_t)corpus_.tokens,
              (uint64_t)corpus_.words(),
              (uint64_t)corpus_.documents};
    Sections sections(out);
    std::memcpy(sections.next<Head>(1), &head, sizeof head);
    std::fill_n(sections.next<double>(spec_.topics), spec_.topics, spec_.alpha);
    double *totals = sections.next<double>(spec_.topics);
    write_entries(totals, (int64_t)n, sections);
    if (words)
        write_words(*words, corpus_.sorted, sections);
}

// totals: (K,), sums of the shares.
void Online::write_entries(double *totals, int64_t n, Sections &sections) const {
    std::fill_n(totals, spec_.topics, 0.0);
    uint32_t *start = sections.next<uint32_t>(corpus_.table + 1), at = 0;
    uint16_t *topic = sections.next<uint16_t>(n);
    float *shares = sections.next<float>(n);
    for (int64_t w = 0; w < corpus_.table; w++) {
        *start++ = at;
        if (corpus_.place[w] == ABSENT)
            continue;
        uint32_t before = at;
        each_share(corpus_.place[w], [&](uint16_t k, float share) {
            totals[k] += share;
            topic[at] = k;
            shares[at++] = share;
        });
        if (at == before) {
            topic[at] = 0;
            shares[at++] = 0;
        }
    }
    *start = at;
}

void Online::copy_lambda(bool set, double *values) {
    for (int64_t k = 0; k < spec_.topics; k++)
        for (int64_t v = 0; v < corpus_.table; v++) {
            double &value = values[k * corpus_.table + v];
            uint32_t w = corpus_.place[v];
            if (!set)
                value = w == ABSENT ? 0 : spec_.beta + share(w, k);
            else if (w != ABSENT)
                lambda_.data()[(int64_t)w * width_ + k] = (float)((value - spec_.beta) / scale_);
        }
    if (set)
        add_up();
}

} // namespace tusk::topics
