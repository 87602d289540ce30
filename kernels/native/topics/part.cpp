// A part of a group's documents, through which blocks of words with their counts pass.
#include <algorithm>
#include <utility>

#include "topics.hpp"

#include "../shared/pool.hpp"

namespace tusk::topics {

int Model::start_part(const tusk_group &group, const tk_topic_table &table, const tk_pass &pass,
                      tusk_memory *memory, tk_topics_about &about) {
    int code = read_corpus(group, nullptr, pass, spec_, memory, about, corpus_, &table);
    if (code == TK_OK)
        code = counts_.lay_out(corpus_, width_, memory, true);
    if (code == TK_OK)
        code = topic_.take(memory, corpus_.tokens);
    if (code == TK_OK)
        draw_first(0, corpus_.tokens);
    return code;
}

int Model::visit(const tk_pass &pass, const tk_topics_visit &visit, int64_t *totals) {
    const uint32_t first = corpus_.first_word[visit.block],
                   end = corpus_.first_word[visit.block + 1];
    counts_.clear(first, end);
    for (uint32_t w = first, at = 0; w < end; w++)
        for (uint32_t last = at + visit.listed[w - first]; at < last; at++)
            counts_.set(w, visit.topic[at], visit.times[at]);
    sweeps_ = visit.sweep;
    alpha_.assign(visit.alpha, visit.alpha + spec_.topics);
    totals_.assign(totals, totals + spec_.topics);
    if (!sweeps_) {
        std::vector<int32_t> added(spec_.topics);
        count_tokens(pass, 0, corpus_.documents, visit.block, added);
        for (int32_t k = 0; k < spec_.topics; k++)
            totals[k] += added[k];
        return cancelled(pass.cancel_mark) ? TK_CANCELLED : TK_OK;
    }
    Place place(width_, alpha_, totals_, (float)spec_.beta, smoothing());
    bool whole = draw(pass, 0, corpus_.documents, visit.block, place);
    std::copy_n(place.total.begin(), spec_.topics, totals);
    return whole ? TK_OK : TK_CANCELLED;
}

int64_t Model::block_words(int32_t block) const {
    return (int64_t)corpus_.first_word[block + 1] - corpus_.first_word[block];
}

int64_t Model::block_counts(int32_t block) const {
    int64_t n = 0;
    for (uint32_t w = corpus_.first_word[block]; w < corpus_.first_word[block + 1]; w++)
        counts_.each(w, [&](uint32_t, uint32_t) { n++; });
    return n;
}

void Model::write_block(int32_t block, uint32_t *listed, uint16_t *topic, uint32_t *times) const {
    std::vector<std::pair<uint32_t, uint32_t>> entries;
    for (uint32_t w = corpus_.first_word[block]; w < corpus_.first_word[block + 1]; w++) {
        entries.clear();
        counts_.each(w, [&](uint32_t k, uint32_t m) { entries.emplace_back(k, m); });
        std::sort(entries.begin(), entries.end());
        for (auto [k, m] : entries) {
            *topic++ = (uint16_t)k;
            *times++ = m;
        }
        *listed++ = (uint32_t)entries.size();
    }
}

void Model::write_places(int32_t block, uint32_t *place) const {
    std::copy_n(corpus_.number.begin() + corpus_.first_word[block], block_words(block), place);
}

void Model::state(bool set, uint16_t *topic) {
    if (set)
        std::copy_n(topic, corpus_.tokens, topic_.data());
    else
        std::copy_n(topic_.data(), corpus_.tokens, topic);
}

} // namespace tusk::topics
