#include <sys/mman.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

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
    std::vector<std::vector<int32_t>> by_block(corpus_.parts, std::vector<int32_t>(spec_.topics));
    for (int32_t window = 0; window < corpus_.windows; window++) {
        const int64_t *part = corpus_.first_document.data() + (int64_t)window * corpus_.parts;
        draw_first(corpus_.start(part[0]), corpus_.start(part[corpus_.parts]));
        parallel_for(corpus_.parts, pass.threads, [&](int64_t block) {
            count_tokens(pass, part[0], part[corpus_.parts], (int32_t)block, by_block[block]);
        });
        if (cancelled(pass.cancel_mark))
            return TK_CANCELLED;
    }
    for (const auto &totals : by_block)
        for (int32_t k = 0; k < spec_.topics; k++)
            totals_[k] += totals[k];
    return TK_OK;
}

// Gives tokens their first topics.
void Model::draw_first(int64_t from, int64_t to) {
    const uint64_t seed = within(spec_.seed, 0);
    for (int64_t i = from; i < to; i++) {
        uint64_t drawn = hashed(seed + (uint64_t)i) >> 32;
        topic_.data()[i] = (uint16_t)((drawn * (uint64_t)spec_.topics) >> 32);
    }
}

// Adds the tokens of some documents with words of a block to the counts.
void Model::count_tokens(const tk_pass &pass, int64_t from, int64_t to, int32_t block,
                         std::vector<int32_t> &totals) {
    const uint32_t base = corpus_.first_word[block], *begin = corpus_.begin.data();
    corpus_.with_words([&](auto *words) {
        for (int64_t d = from; d < to; d++) {
            if (d % LOOK == 0 && cancelled(pass.cancel_mark))
                return;
            const uint32_t *at = begin + d * corpus_.parts + block;
            for (uint32_t i = at[0]; i < at[1]; i++) {
                if (i % TOKENS == 0 && cancelled(pass.cancel_mark))
                    return;
                counts_.add(base + words[i], topic_.data()[i]);
                totals[topic_.data()[i]]++;
            }
        }
    });
}

// The visits of a rotation: each part draws each block once, in an order of its own. A block is
// ready for a part when the parts before it in the ring have drawn it, and of the ready visits a
// thread takes the heaviest (section 3.3.1 of the paper in api.h). No other thread is waited for.
class Model::Rotation {
public:
    explicit Rotation(const Corpus &corpus)
        : parts_(corpus.parts), step_(parts_), drawn_(parts_), busy_(parts_), load_(parts_),
          left_(parts_ * parts_) {
        for (int32_t b = 0; b < parts_; b++)
            for (uint32_t w = corpus.first_word[b]; w < corpus.first_word[b + 1]; w++)
                load_[b] += corpus.frequency[w];
    }

    // Calls visit(part, block) until all visits are made or one returns false.
    template <class Visit> void run(Visit visit) {
        std::unique_lock lock(mutex_);
        while (left_) {
            int32_t part = heaviest();
            if (part < 0) {
                change_.wait(lock);
                continue;
            }
            int32_t block = block_of(part);
            busy_[part] = true;
            left_--;
            lock.unlock();
            bool whole = visit(part, block);
            lock.lock();
            busy_[part] = false;
            step_[part]++;
            drawn_[block]++;
            if (!whole)
                left_ = 0;
            change_.notify_all();
        }
    }

private:
    int32_t block_of(int32_t part) const { return (part + step_[part]) % parts_; }
    int32_t heaviest() const {
        int32_t found = -1;
        for (int32_t p = 0; p < parts_; p++) {
            if (busy_[p] || step_[p] == parts_ || drawn_[block_of(p)] != step_[p])
                continue;
            if (found < 0 || load_[block_of(p)] > load_[block_of(found)])
                found = p;
        }
        return found;
    }

    int32_t parts_;
    std::vector<int32_t> step_, drawn_; // visits of each part, and of each block
    std::vector<uint8_t> busy_;
    std::vector<int64_t> load_; // tokens of each block
    int32_t left_;              // visits that have not begun
    std::mutex mutex_;
    std::condition_variable change_;
};

int Model::sweep(const tk_pass &pass, int threads) {
    if (!corpus_.tokens)
        return TK_OK;
    sweeps_++;
    for (int32_t window = 0; window < corpus_.windows; window++) {
        look_ahead((window + 1) % corpus_.windows);
        int code = rotate(pass, threads, window);
        if (code != TK_OK)
            return code;
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

// Changes of the totals by all parts add up at the end, as integers.
int Model::rotate(const tk_pass &pass, int threads, int32_t window) {
    const int32_t parts = corpus_.parts;
    const int64_t *first = corpus_.first_document.data() + (int64_t)window * parts;
    std::vector<Place> places(parts,
                              Place(width_, alpha_, totals_, (float)spec_.beta, smoothing()));
    std::atomic<bool> whole{true};
    Rotation rotation(corpus_);
    parallel_for(std::min(threads, parts), threads, [&](int64_t) {
        rotation.run([&](int32_t part, int32_t block) {
            bool all = draw(pass, first[part], first[part + 1], block, places[part]);
            if (!all)
                whole = false;
            return all;
        });
    });
    std::vector<int64_t> before = totals_;
    for (const Place &place : places)
        for (int32_t k = 0; k < spec_.topics; k++)
            totals_[k] += place.total[k] - before[k];
    return whole ? (int)TK_OK : cancelled(pass.cancel_mark) ? TK_CANCELLED : TK_OUT_OF_TIME;
}

bool Model::draw(const tk_pass &pass, int64_t from, int64_t to, int32_t block, Place &place) {
    return corpus_.with_words(
        [&](auto *words) { return draw_words(pass, words, from, to, block, place); });
}

template <class W>
bool Model::draw_words(const tk_pass &pass, const W *words, int64_t from, int64_t to,
                       int32_t block, Place &place) {
    const uint64_t seed = within(spec_.seed, (uint64_t)sweeps_);
    const uint32_t *begin = corpus_.begin.data(), base = corpus_.first_word[block];
    uint16_t *topic = topic_.data();
    bool whole = true;
    for (int64_t d = from; d < to && whole; d++) {
        uint32_t at = begin[d * corpus_.parts + block], end = begin[d * corpus_.parts + block + 1];
        if (d % LOOK == 0)
            whole = ending(pass.cancel_mark, pass.deadline) == TK_OK;
        if (at == end || !whole)
            continue;
        uint32_t first = corpus_.start(d);
        place.begin(topic + first, corpus_.start(d + 1) - first);
        for (uint32_t i = at; i < end && whole; i++) {
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
    return whole;
}

} // namespace tusk::topics
