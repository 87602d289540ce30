#include "corpus.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string_view>

#include "../nets/arithmetic/random.hpp"
#include "../shared/pool.hpp"
#include "../shared/segments.hpp"

namespace tusk::topics {
namespace {

constexpr int64_t FEW_TOKENS = 100'000; // one part up to here: threads would wait more than they
                                        // draw
constexpr int64_t MANY_TOKENS = 20'000'000;
constexpr int64_t FILLED = 1 << 22; // tokens written per reading of the rows
constexpr int64_t SPENT = 1 << 20;  // tokens of a group whose rows are many pages
constexpr int64_t ROWS = 512;       // rows that a thread takes at a time

// Start and end of the starts, ids and counts of a segment's rows.
char *begin_of(const tusk_segment *s) {
    return (char *)tusk_row_starts(s);
}
template <class T> char *end_of(const tusk_segment *s) {
    return (char *)((T *)tusk_sparse_values(s) + s->cap_nnz);
}

struct Document {
    uint64_t hash;
    int64_t tokens;
    const tusk_segment *segment;
    uint32_t row;    // in the segment; for a segment of words, the index of the first word
    uint32_t number; // among the documents with words

    bool has_words() const { return segment->cap_nnz == TUSK_SPENT; }
};

// The entries of a row. Ids are features, counts may be split over several entries.
template <class T> struct Entries {
    const int32_t *id;
    const T *count;
    uint32_t n;
};
template <class T> Entries<T> entries_of(const Document &d) {
    uint32_t from = tusk_row_starts(d.segment)[d.row];
    return {tusk_indices(d.segment) + from, (const T *)tusk_sparse_values(d.segment) + from,
            tusk_row_starts(d.segment)[d.row + 1] - from};
}

using Order = std::vector<std::pair<uint32_t, uint32_t>>; // indices and counts

struct Reader {
    const tusk_group &group;
    const tk_pass &pass;
    tk_topics_about &about;
    Corpus &out;
    std::vector<Document> documents;
    std::vector<uint32_t> rank;                   // of words, by id; none: ids are ranks
    std::vector<std::atomic<uint32_t>> frequency; // by rank
    std::vector<int64_t> start;                   // of documents, the first token
    std::vector<uint32_t> place;                  // by the number of a document
    const uint8_t *dropped;                       // words that are left out, by id; NULL: none
    const tk_topic_table *table;                  // of a part of a group, or NULL

    bool is_dropped(int32_t id) const {
        return (dropped && dropped[id]) || (table && !table->frequency[rank_of(id)]);
    }
    uint32_t rank_of(int32_t id) const { return rank.empty() ? (uint32_t)id : rank[id]; }

    void list_documents() {
        int64_t left = group.n_rows;
        documents.reserve(left);
        for (const tusk_segment *s : SegmentsOf(group))
            for (uint32_t i = 0; i < s->n_rows && left; i++, left--)
                documents.push_back({0, 0, s, i, 0});
    }

    // Calls body(from, to) for ranges of documents. Returns TK_CANCELLED after a cancel.
    template <class Body> int by_ranges(Body body) {
        int64_t n = (int64_t)documents.size();
        parallel_for((n + ROWS - 1) / ROWS, pass.threads, [&](int64_t range) {
            if (!cancelled(pass.cancel_mark))
                body(range * ROWS, std::min(n, (range + 1) * ROWS));
        });
        return cancelled(pass.cancel_mark) ? TK_CANCELLED : TK_OK;
    }

    // The hash of a document is a sum over tokens, so their order does not count.
    template <class T> int count() {
        std::atomic<int64_t> bad{-1};
        int code = by_ranges([&](int64_t from, int64_t to) {
            for (int64_t d = from; d < to; d++)
                if (!count_one<T>(documents[d]))
                    bad = d;
        });
        if (code == TK_OK && bad >= 0)
            return refuse<T>();
        about.tokens = about.counts = 0;
        for (const Document &d : documents) {
            about.tokens += d.tokens;
            about.counts += entries_of<T>(d).n;
        }
        if (about.tokens > TK_MOST_TOKENS) {
            about.fault = TK_TOO_MANY_TOKENS;
            return TK_REFUSED;
        }
        if (about.tokens > TK_FEW_TOKENS && about.tokens / TK_FEW_PER_COUNT > about.counts) {
            about.fault = TK_LARGE_COUNTS;
            return TK_REFUSED;
        }
        return code;
    }

    static bool is_count(double x) { return x >= 0 && x <= TK_MOST_TOKENS && x == std::floor(x); }

    template <class T> bool count_one(Document &d) {
        Entries<T> e = entries_of<T>(d);
        for (uint32_t i = 0; i < e.n; i++) {
            if (!is_count((double)e.count[i]))
                return false;
            if (is_dropped(e.id[i]))
                continue;
            uint64_t n = (uint64_t)e.count[i];
            uint32_t word = rank_of(e.id[i]);
            d.tokens += (int64_t)n;
            d.hash += n * hashed(word);
            frequency[word].fetch_add((uint32_t)n, std::memory_order_relaxed);
        }
        return true;
    }

    // Reports the least invalid count, whichever thread found one first.
    template <class T> int refuse() {
        about.fault = TK_COUNTS_FINE;
        for (const Document &d : documents) {
            Entries<T> e = entries_of<T>(d);
            for (uint32_t i = 0; i < e.n; i++) {
                double x = (double)e.count[i];
                bool before = about.fault && about.bad_count <= x;
                if (is_count(x) || before)
                    continue;
                about.fault = TK_BAD_COUNT;
                about.bad_count = x;
                about.bad_id = e.id[i];
            }
        }
        return TK_REFUSED;
    }

    void sort_documents() {
        std::erase_if(documents, [](const Document &d) { return !d.tokens; });
        for (size_t d = 0; d < documents.size(); d++)
            documents[d].number = (uint32_t)d;
        std::sort(documents.begin(), documents.end(), [](const Document &a, const Document &b) {
            return a.hash != b.hash ? a.hash < b.hash : a.tokens < b.tokens;
        });
        about.documents = out.documents = (int64_t)documents.size();
        out.tokens = about.tokens;
    }

    // Deals words to blocks, the most frequent first, each to the block with the fewest tokens.
    void place_words() {
        uint32_t table = (uint32_t)frequency.size();
        std::vector<uint32_t> order;
        for (uint32_t w = 0; w < table; w++)
            if (frequency[w])
                order.push_back(w);
        about.words = (int64_t)order.size();
        std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
            return frequency[a] != frequency[b] ? frequency[a] > frequency[b] : a < b;
        });
        std::vector<std::vector<uint32_t>> block(out.parts);
        std::vector<int64_t> load(out.parts);
        for (uint32_t w : order) {
            size_t least = std::min_element(load.begin(), load.end()) - load.begin();
            block[least].push_back(w);
            load[least] += frequency[w];
        }
        out.table = table;
        out.place.assign(table, ABSENT);
        for (const auto &words : block) {
            out.first_word.push_back((uint32_t)out.number.size());
            for (uint32_t w : words) {
                out.place[w] = (uint32_t)out.number.size();
                out.number.push_back(w);
                out.frequency.push_back(frequency[w]);
            }
        }
        out.first_word.push_back((uint32_t)out.number.size());
    }

    // Cuts neighbouring documents into parts of about equal numbers of tokens.
    void cut_parts() {
        int64_t seen = 0, n = (int64_t)out.windows * out.parts;
        out.first_document.assign(1, 0);
        for (size_t d = 0; d < documents.size(); d++) {
            int64_t part = (int64_t)out.first_document.size();
            if (part < n && seen * n >= out.tokens * part)
                out.first_document.push_back((int64_t)d);
            seen += documents[d].tokens;
        }
        out.first_document.resize(n + 1, out.documents);
        out.first_document.back() = out.documents;
    }

    int take_begin(tusk_memory *memory) {
        uint32_t most = 0; // words of a block
        for (int32_t b = 0; b < out.parts; b++)
            most = std::max(most, out.first_word[b + 1] - out.first_word[b]);
        out.narrow = most <= 1u << 16;
        return out.begin.take(memory, out.documents * out.parts + 1);
    }

    // The start of each document in the model's order, and the document of each row.
    void number_documents() {
        start.resize(documents.size() + 1);
        place.resize(documents.size());
        for (size_t d = 0; d < documents.size(); d++) {
            start[d + 1] = start[d] + documents[d].tokens;
            place[documents[d].number] = (uint32_t)d;
        }
        out.begin.data()[out.documents * out.parts] = (uint32_t)out.tokens;
    }

    // Writes words over the rows, segment by segment, and frees the rest of the memory: so words
    // and rows are never in memory at the same time.
    template <class T, class W> int shrink(W *) {
        std::vector<size_t> first; // of each segment's rows
        for (size_t i = 0; i < place.size(); i++)
            if (!i || documents[place[i]].segment != documents[place[i - 1]].segment)
                first.push_back(i);
        first.push_back(place.size());
        parallel_for((int64_t)first.size() - 1, pass.threads, [&](int64_t s) {
            if (!cancelled(pass.cancel_mark))
                shrink_one<T, W>(first[s], first[s + 1]);
        });
        return cancelled(pass.cancel_mark) ? TK_CANCELLED : TK_OK;
    }

    template <class T, class W> void shrink_one(size_t from, size_t to) {
        auto *segment = const_cast<tusk_segment *>(documents[place[from]].segment);
        int64_t tokens = 0;
        for (size_t i = from; i < to; i++)
            tokens += documents[place[i]].tokens;
        if (begin_of(segment) + tokens * sizeof(W) > end_of<T>(segment))
            return; // counts are high
        std::vector<W> words(tokens);
        Order order;
        uint32_t at = 0;
        for (size_t i = from; i < to; i++) {
            Document &d = documents[place[i]];
            expand<T>(d, place[i], order, words.data() + at);
            d.row = at;
            at += (uint32_t)d.tokens;
        }
        char *begin = begin_of(segment), *end = end_of<T>(segment);
        std::memcpy(begin, words.data(), tokens * sizeof(W));
        segment->cap_nnz = TUSK_SPENT;
        tusk_slab_release(segment->slab, begin + tokens * sizeof(W), end);
    }

    // Reads the rows in order, as often as needed for each reading's output to stay in memory.
    template <class T, class W> int fill(W *words) {
        int code = TK_OK;
        for (int64_t first = 0; first < out.tokens && code == TK_OK; first += FILLED)
            code = by_ranges([&](int64_t from, int64_t to) {
                Order order;
                for (int64_t i = from; i < to; i++)
                    if (int64_t at = start[place[i]]; at >= first && at < first + FILLED)
                        fill_one<T>(place[i], order, words + at);
            });
        return code;
    }

    template <class T, class W> void fill_one(uint32_t d, Order &order, W *words) {
        const Document &document = documents[d];
        if (document.has_words())
            std::copy_n((const W *)begin_of(document.segment) + document.row, document.tokens,
                        words);
        else
            expand<T>(document, d, order, words);
    }

    // Writes the words of a document, and the start of each block.
    template <class T, class W>
    void expand(const Document &document, uint32_t number, Order &order, W *words) {
        Entries<T> e = entries_of<T>(document);
        order.clear();
        for (uint32_t i = 0; i < e.n; i++)
            if (e.count[i] > 0 && !is_dropped(e.id[i]))
                order.emplace_back(out.place[rank_of(e.id[i])], (uint32_t)e.count[i]);
        std::sort(order.begin(), order.end());
        uint32_t *begin = out.begin.data() + (int64_t)number * out.parts;
        uint32_t at = (uint32_t)start[number];
        int32_t block = 0;
        for (auto [word, n] : order) {
            while (block < out.parts && word >= out.first_word[block])
                begin[block++] = at;
            words = std::fill_n(words, n, (W)(word - out.first_word[block - 1]));
            at += n;
        }
        while (block < out.parts)
            begin[block++] = at;
    }

    // Frees the remaining rows.
    void spend() {
        const tusk_shape shape = tusk_shape_of(&group);
        for (const tusk_segment *s : SegmentsOf(group))
            if (s->cap_nnz != TUSK_SPENT)
                tusk_segment_spend(const_cast<tusk_segment *>(s), shape);
    }
    void spend_words() {
        for (size_t i = 0; i < place.size();) {
            const tusk_segment *segment = documents[place[i]].segment;
            int64_t tokens = 0;
            for (; i < place.size() && documents[place[i]].segment == segment; i++)
                tokens += documents[place[i]].tokens;
            char *words = begin_of(segment);
            if (segment->cap_nnz == TUSK_SPENT)
                tusk_slab_release(segment->slab, words, words + tokens * out.token_bytes());
        }
    }

    // The words of all tokens, in the order of the documents.
    template <class T> int read_words(tusk_memory *memory, bool spends) {
        int code = TK_OK;
        if (spends)
            code = out.with_words([&](auto *words) { return shrink<T>(words); });
        if (code == TK_OK)
            code = out.word.take(memory, out.tokens * out.token_bytes());
        if (code == TK_OK)
            code = out.with_words([&](auto *words) { return fill<T>(words); });
        if (code == TK_OK && spends) {
            spend_words();
            spend();
        }
        return code;
    }
};

// Ids in the order of their words' bytes.
std::vector<uint32_t> sorted_ids(const tk_topic_words &words) {
    auto word = [&](uint32_t id) {
        return std::string_view(words.text + words.offsets[id],
                                words.offsets[id + 1] - words.offsets[id]);
    };
    std::vector<uint32_t> ids(words.n);
    std::iota(ids.begin(), ids.end(), 0u);
    auto before = [&](uint32_t a, uint32_t b) { return word(a) < word(b); };
    if (!std::is_sorted(ids.begin(), ids.end(), before)) // packers sort them
        std::sort(ids.begin(), ids.end(), before);
    return ids;
}

int32_t parts_for(int64_t tokens) {
    return tokens < FEW_TOKENS ? 1 : tokens < MANY_TOKENS ? 4 : 8;
}

template <class T> int read(Reader &r, const tk_topics_spec &spec, tusk_memory *memory) {
    r.list_documents();
    int code = r.count<T>();
    if (code != TK_OK)
        return code;
    r.sort_documents();
    if (r.table)
        std::copy_n(r.table->frequency, r.table->n, r.frequency.begin());
    r.out.parts = r.about.parts = spec.parts ? spec.parts : parts_for(r.out.tokens);
    int64_t window = spec.window ? spec.window : TK_WINDOW;
    r.out.windows = (int32_t)std::max<int64_t>(1, r.out.tokens / window);
    r.place_words();
    r.cut_parts();
    code = r.take_begin(memory);
    if (code != TK_OK)
        return code;
    r.number_documents();
    return r.read_words<T>(memory, spec.spends && r.out.tokens >= SPENT);
}

} // namespace

int read_corpus(const tusk_group &group, const tk_topic_words *words, const tk_pass &pass,
                const tk_topics_spec &spec, tusk_memory *memory, tk_topics_about &about,
                Corpus &out, const tk_topic_table *table) {
    int64_t n = table ? table->n : words ? words->n : group.dim;
    std::vector<std::atomic<uint32_t>> frequency(n);
    Reader r{group,
             pass,
             about,
             out,
             {},
             {},
             std::move(frequency),
             {},
             {},
             words ? words->dropped : nullptr,
             table};
    if (table && table->rank)
        r.rank.assign(table->rank, table->rank + group.dim);
    if (words) {
        out.sorted = sorted_ids(*words);
        r.rank.resize(words->n);
        for (uint32_t at = 0; at < out.sorted.size(); at++)
            r.rank[out.sorted[at]] = at;
    }
    return group.kind & 1 ? read<double>(r, spec, memory) : read<float>(r, spec, memory);
}

} // namespace tusk::topics
