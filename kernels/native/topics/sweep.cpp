#include <sys/mman.h>

#include "topics.hpp"

#include "../nets/arithmetic/random.hpp"
#include "../shared/pool.hpp"
#include "draw.hpp"

namespace tusk::topics {
namespace {

constexpr int64_t LOOK = 64;         // documents between two checks of the clock and for cancels
constexpr uint32_t TOKENS = 1 << 14; // and tokens, as a document may have many

float unit(uint64_t seed, uint64_t number) {
    return (float)(hashed(seed + number * UINT64_C(0x9e3779b97f4a7c15)) >> 40) * 0x1p-24f;
}

// Advises the system which bytes of a file are read next; no effect on memory.
void want(const char *from, const char *to) {
    constexpr uintptr_t PAGE = 4096;
    uintptr_t first = (uintptr_t)from & ~(PAGE - 1);
    if (to > from)
        madvise((void *)first, (uintptr_t)to - first, MADV_WILLNEED);
}

} // namespace

int Model::start(const tusk_group &group, const tk_topic_words *words, const tk_pass &pass,
                 tusk_memory *memory, tk_topics_about &about) {
    int code = read_corpus(group, words, pass, spec_, memory, about, corpus_);
    if (code == TK_OK) // before topics: counts are read at random
        code = counts_.lay_out(corpus_, width_, memory);
    if (code == TK_OK)
        code = topic_.take(memory, corpus_.tokens);
    if (code != TK_OK)
        return code;
    alpha_.assign(spec_.topics, spec_.alpha);
    totals_.assign(spec_.topics, 0);
    after_.assign(corpus_.parts, std::vector<int32_t>(spec_.topics));
    for (int32_t window = 0; window < corpus_.windows; window++) {
        parallel_for(corpus_.parts, pass.threads,
                     [&](int64_t block) { begin(pass, window, (int32_t)block, after_[block]); });
        if (cancelled(pass.cancel_mark))
            return TK_CANCELLED;
    }
    for (const auto &totals : after_)
        for (int32_t k = 0; k < spec_.topics; k++)
            totals_[k] += totals[k];
    return TK_OK;
}

// Gives the tokens of a block's words their first topics.
void Model::begin(const tk_pass &pass, int32_t window, int32_t block,
                  std::vector<int32_t> &totals) {
    const uint64_t seed = within(spec_.seed, 0);
    const uint32_t base = corpus_.first_word[block], *begin = corpus_.begin.data();
    const int64_t *part = corpus_.first_document.data() + (int64_t)window * corpus_.parts;
    corpus_.with_words([&](auto *words) {
        for (int64_t d = part[0]; d < part[corpus_.parts]; d++) {
            if (d % LOOK == 0 && cancelled(pass.cancel_mark))
                return;
            const uint32_t *at = begin + d * corpus_.parts + block;
            for (uint32_t i = at[0]; i < at[1]; i++) {
                if (i % TOKENS == 0 && cancelled(pass.cancel_mark))
                    return;
                uint64_t drawn = hashed(seed + i) >> 32;
                uint32_t k = (uint32_t)((drawn * (uint64_t)spec_.topics) >> 32);
                topic_.data()[i] = (uint16_t)k;
                counts_.add(base + words[i], k);
                totals[k]++;
            }
        }
    });
}

int Model::sweep(const tk_pass &pass, int threads) {
    if (!corpus_.tokens)
        return TK_OK;
    sweeps_++;
    for (int32_t window = 0; window < corpus_.windows; window++) {
        look_ahead((window + 1) % corpus_.windows);
        for (int32_t number = 0; number < corpus_.parts; number++) {
            int code = round(pass, threads, window, number);
            if (code != TK_OK)
                return code;
        }
    }
    return TK_OK;
}

void Model::look_ahead(int32_t window) const {
    if (corpus_.windows == 1)
        return;
    const int64_t *part = corpus_.first_document.data() + (int64_t)window * corpus_.parts;
    int64_t from = corpus_.start(part[0]), to = corpus_.start(part[corpus_.parts]);
    int64_t size = corpus_.token_bytes();
    want(corpus_.word.data() + from * size, corpus_.word.data() + to * size);
    want((char *)(topic_.data() + from), (char *)(topic_.data() + to));
}

// Changes of the totals by all parts add up, as integers.
int Model::round(const tk_pass &pass, int threads, int32_t window, int32_t number) {
    const int32_t parts = corpus_.parts;
    std::vector<uint8_t> whole(parts);
    parallel_for(parts, threads, [&](int64_t part) {
        int32_t block = (int32_t)((part + number) % parts);
        int64_t documents = (int64_t)window * parts + part;
        whole[part] = corpus_.with_words(
            [&](auto *words) { return visit(pass, words, documents, block, after_[part]); });
    });
    std::vector<int64_t> before = totals_;
    for (const auto &totals : after_)
        for (int32_t k = 0; k < spec_.topics; k++)
            totals_[k] += totals[k] - before[k];
    for (uint8_t one : whole)
        if (!one)
            return cancelled(pass.cancel_mark) ? TK_CANCELLED : TK_OUT_OF_TIME;
    return TK_OK;
}

template <class W>
bool Model::visit(const tk_pass &pass, const W *words, int64_t part, int32_t block,
                  std::vector<int32_t> &totals) {
    Place place(width_, alpha_, totals_, (float)spec_.beta, smoothing());
    const uint64_t seed = within(spec_.seed, (uint64_t)sweeps_);
    const uint32_t *begin = corpus_.begin.data(), base = corpus_.first_word[block];
    uint16_t *topic = topic_.data();
    bool whole = true;
    int64_t last = corpus_.first_document[part + 1];
    for (int64_t d = corpus_.first_document[part]; d < last && whole; d++) {
        uint32_t from = begin[d * corpus_.parts + block],
                 to = begin[d * corpus_.parts + block + 1];
        if (d % LOOK == 0)
            whole = ending(pass.cancel_mark, pass.deadline) == TK_OK;
        if (from == to || !whole)
            continue;
        uint32_t first = corpus_.start(d);
        place.begin(topic + first, corpus_.start(d + 1) - first);
        for (uint32_t i = from; i < to && whole; i++) {
            if (i % TOKENS == 0)
                whole = ending(pass.cancel_mark, pass.deadline) == TK_OK;
            uint32_t w = base + words[i], own = topic[i], k;
            float u = unit(seed, i);
            if (counts_.is_row(w))
                k = draw_from_row(place, counts_.at(w), own, u);
            else
                k = draw_from_list(place, counts_.at(w), counts_.listed(w), own, u);
            if (k == own)
                continue;
            counts_.remove(w, own);
            counts_.add(w, k);
            place.move(own, k);
            topic[i] = (uint16_t)k;
        }
    }
    totals.assign(place.total.begin(), place.total.end());
    return whole;
}

} // namespace tusk::topics
