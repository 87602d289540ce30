#include "batch.hpp"

namespace tusk::topics {

void Batch::clear() {
    for (uint32_t w : word_)
        slot_[w] = ABSENT;
    word_.clear();
    at.clear();
    of_.clear();
    count.clear();
    first_.assign(1, 0);
}

int Batch::read(const Corpus &corpus, int64_t from, int64_t to, int64_t width) {
    clear();
    corpus.with_words([&](auto *words) {
        for (int64_t d = from; d < to; d++) {
            for (uint32_t i = corpus.start(d), end = corpus.start(d + 1), next; i < end;
                 i = next) {
                uint32_t w = words[i];
                for (next = i + 1; next < end && words[next] == w;)
                    next++;
                if (slot_[w] == ABSENT) {
                    slot_[w] = (uint32_t)word_.size();
                    word_.push_back(w);
                }
                at.push_back(slot_[w]);
                of_.push_back((uint32_t)(d - from));
                count.push_back(next - i);
            }
            first_.push_back((int64_t)at.size());
        }
    });
    ratio.resize(at.size());
    list_uses();
    return grow(width);
}

void Batch::list_uses() {
    use_begin_.assign(word_.size() + 1, 0);
    for (uint32_t slot : at)
        use_begin_[slot + 1]++;
    for (size_t s = 0; s < word_.size(); s++)
        use_begin_[s + 1] += use_begin_[s];
    use_.resize(at.size());
    std::vector<int64_t> next(use_begin_.begin(), use_begin_.end() - 1);
    for (size_t e = 0; e < at.size(); e++)
        use_[next[at[e]]++] = (uint32_t)e;
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
