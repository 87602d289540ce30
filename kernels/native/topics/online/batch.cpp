#include "online.hpp"

namespace tusk::topics {

namespace {

// Calls body(word, count) for the words of a document, each once.
template <class W, class Body>
void each_word(const Corpus &corpus, const W *words, int64_t d, Body body) {
    for (uint32_t i = corpus.start(d), end = corpus.start(d + 1), next; i < end; i = next) {
        for (next = i + 1; next < end && words[next] == words[i];)
            next++;
        body((uint32_t)words[i], next - i);
    }
}

} // namespace

void Batch::clear() {
    for (uint32_t w : word_)
        slot_[w] = ABSENT;
    word_.clear();
    first_.assign(1, 0);
}

int Batch::read(const Corpus &corpus, int64_t from, int64_t to, int64_t width) {
    clear();
    int code = corpus.with_words([&](auto *words) {
        int64_t entries = 0;
        for (int64_t d = from; d < to; d++)
            each_word(corpus, words, d, [&](uint32_t, uint32_t) { entries++; });
        int failed = make_room(entries);
        if (failed == TK_OK)
            fill(corpus, words, from, to);
        return failed;
    });
    if (code != TK_OK)
        return code;
    list_uses();
    return grow(width);
}

template <class W>
void Batch::fill(const Corpus &corpus, const W *words, int64_t from, int64_t to) {
    int64_t n = 0;
    for (int64_t d = from; d < to; d++) {
        each_word(corpus, words, d, [&](uint32_t w, uint32_t times) {
            if (slot_[w] == ABSENT) {
                slot_[w] = (uint32_t)word_.size();
                word_.push_back(w);
            }
            at.data()[n] = slot_[w];
            of_.data()[n] = (uint32_t)(d - from);
            count.data()[n++] = times;
        });
        first_.push_back(n);
    }
}

void Batch::list_uses() {
    const int64_t n = first_.back();
    use_begin_.assign(word_.size() + 1, 0);
    for (int64_t e = 0; e < n; e++)
        use_begin_[at.data()[e] + 1]++;
    for (size_t s = 0; s < word_.size(); s++)
        use_begin_[s + 1] += use_begin_[s];
    std::vector<int64_t> next(use_begin_.begin(), use_begin_.end() - 1);
    for (int64_t e = 0; e < n; e++)
        use_.data()[next[at.data()[e]]++] = (uint32_t)e;
}

int Batch::make_room(int64_t entries) {
    if (entries <= has_entries_)
        return TK_OK;
    has_entries_ = entries + entries / 4;
    for (Charged<uint32_t> *one : {&at, &of_, &use_})
        if (int code = one->take(memory_, has_entries_))
            return code;
    for (Charged<double> *one : {&count, &ratio})
        if (int code = one->take(memory_, has_entries_))
            return code;
    return TK_OK;
}

int Batch::grow(int64_t width) {
    int code = TK_OK;
    if (documents() > has_documents_) {
        has_documents_ = documents();
        code = gamma.take(memory_, has_documents_ * width);
        if (code == TK_OK)
            code = weight.take(memory_, has_documents_ * width);
    }
    if (code == TK_OK && words() > has_words_) {
        has_words_ = words() + words() / 4;
        code = word_weight.take(memory_, has_words_ * width);
    }
    return code;
}

} // namespace tusk::topics
