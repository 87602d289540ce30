// Numbers the features of one chunk by rising id, in the memory that the caller gives. Entries are
// put into ranges of ids that a core's cache holds a bitmap of; the rank of an id is the number of
// bits below it (Jacobson, Space-efficient static trees and graphs, FOCS 1989). Entries keep their
// order in each range, so a second walk over the rows finds the rank of each without its number.
#include <algorithm>
#include <bit>
#include <vector>

#include "chunks.hpp"

namespace tusk {
namespace {

constexpr int MOST_RANGES = 11, LEAST_WIDTH = 16; // powers of two: number of ranges, ids per range
constexpr int WORD = 6, LOW = 63;                 // bits of an index in a word

// The entries of a piece, or of a part of it.
struct Entries {
    int32_t *index;
    uint32_t n;
};

std::vector<Entries> entries_of(const StoredChunk &chunk) {
    std::vector<Entries> out;
    for (const Run &p : chunk.pieces) {
        const uint32_t *start = tusk_row_starts(p.segment) + p.first;
        auto *index = const_cast<int32_t *>(tusk_indices(p.segment)) + start[0];
        out.push_back({index, start[p.n] - start[0]}); // the training owns the rows
    }
    return out;
}

// The entries of each thread, in about equal numbers.
std::vector<std::vector<Entries>> shares_of(const std::vector<Entries> &all, size_t n,
                                            int threads) {
    std::vector<std::vector<Entries>> shares((size_t)threads);
    size_t most = n / shares.size() + 1, at = 0, room = most;
    for (Entries rest : all)
        while (rest.n) {
            if (!room)
                at++, room = most;
            auto count = (uint32_t)std::min<size_t>(rest.n, room);
            shares[at].push_back({rest.index, count});
            rest = {rest.index + count, rest.n - count};
            room -= count;
        }
    return shares;
}

// A set of ids of one range, as a bitmap with a list of its nonzero words.
class IdSet {
public:
    explicit IdSet(int width) : words_((size_t)1 << std::max(0, width - WORD)) {
        touched_.resize((words_.size() >> WORD) + 1);
    }

    void add(uint32_t id) {
        size_t word = id >> WORD;
        words_[word].bits |= (uint64_t)1 << (id & LOW);
        touched_[word >> WORD] |= (uint64_t)1 << (word & LOW);
    }

    // Writes the ids, rising, plus `base`; returns their number.
    uint32_t list(int32_t *to, int32_t base) {
        uint32_t n = 0;
        for_words([&](size_t at) {
            words_[at].below = n;
            for (uint64_t left = words_[at].bits; left; left &= left - 1)
                to[n++] = base + (int32_t)(at << WORD) + std::countr_zero(left);
        });
        return n;
    }

    // The ids below one, after `list`.
    uint32_t rank(uint32_t id) const {
        const Word &word = words_[id >> WORD];
        return word.below + (uint32_t)std::popcount(word.bits & (((uint64_t)1 << (id & LOW)) - 1));
    }

    void clear() {
        for_words([&](size_t at) { words_[at].bits = 0; });
        std::fill(touched_.begin(), touched_.end(), 0);
    }

private:
    struct Word {
        uint64_t bits = 0;
        uint32_t below = 0;
    };
    template <class Body> void for_words(Body &&body) {
        for (size_t t = 0; t < touched_.size(); t++)
            for (uint64_t left = touched_[t]; left; left &= left - 1)
                body((t << WORD) + (size_t)std::countr_zero(left));
    }

    std::vector<Word> words_;
    std::vector<uint64_t> touched_;
};

// Ranges of 2^width ids, and the start of each thread's entries of each range.
struct Ranges {
    int width;
    size_t n;
    std::vector<std::vector<uint32_t>> begin; // by thread and range
    std::vector<uint32_t> first, distinct;    // by range: number of distinct ids, and number
                                              // before the range, with an extra end
};

int32_t largest_of(const std::vector<Entries> &share) {
    int32_t largest = 0;
    for (const Entries &e : share)
        for (uint32_t k = 0; k < e.n; k++)
            largest = std::max(largest, e.index[k]);
    return largest;
}

Ranges ranges_of(const std::vector<std::vector<Entries>> &shares, int threads) {
    std::vector<int32_t> largest(shares.size());
    parallel_for((int64_t)shares.size(), threads,
                 [&](int64_t t) { largest[t] = largest_of(shares[t]); });
    auto top = (uint32_t)*std::max_element(largest.begin(), largest.end());
    int width = std::max(LEAST_WIDTH, (int)std::bit_width(top) - MOST_RANGES);
    size_t n = (top >> width) + 1;
    Ranges out{width, n, {}, std::vector<uint32_t>(n + 1), std::vector<uint32_t>(n + 1)};
    out.begin.assign(shares.size(), std::vector<uint32_t>(n));
    parallel_for((int64_t)shares.size(), threads, [&](int64_t t) {
        for (const Entries &e : shares[t])
            for (uint32_t k = 0; k < e.n; k++)
                out.begin[t][(uint32_t)e.index[k] >> width]++;
    });
    uint32_t at = 0;
    for (size_t r = 0; r < n; r++) {
        out.first[r] = at;
        for (auto &begin : out.begin) {
            uint32_t count = begin[r];
            begin[r] = at;
            at += count;
        }
    }
    out.first[n] = at;
    return out;
}

// Writes the entries minus the first id of their range, range by range.
void spread(const std::vector<Entries> &share, std::vector<uint32_t> to, int width,
            uint32_t *out) {
    uint32_t mask = ((uint32_t)1 << width) - 1;
    for (const Entries &e : share)
        for (uint32_t k = 0; k < e.n; k++) {
            auto id = (uint32_t)e.index[k];
            out[to[id >> width]++] = id & mask;
        }
}

// Replaces the entries of ranges low .. high - 1 by their ranks there, and lists their ids.
void rank_ranges(Ranges &of, size_t low, size_t high, uint32_t *entries, int32_t *ids) {
    IdSet set(of.width);
    for (size_t r = low; r < high; r++) {
        for (uint32_t k = of.first[r]; k < of.first[r + 1]; k++)
            set.add(entries[k]);
        of.distinct[r + 1] = set.list(ids + of.first[r], (int32_t)(r << of.width));
        for (uint32_t k = of.first[r]; k < of.first[r + 1]; k++)
            entries[k] = set.rank(entries[k]);
        set.clear();
    }
}

// Concatenates the ids of all ranges; computes their number before each range.
void gather(Ranges &of, int32_t *ids) {
    for (size_t r = 0; r < of.n; r++) {
        uint32_t count = of.distinct[r + 1];
        std::copy_n(ids + of.first[r], count, ids + of.distinct[r]);
        of.distinct[r + 1] = of.distinct[r] + count;
    }
}

// Writes the ranks into the rows.
void replace(const std::vector<Entries> &share, const Ranges &of, std::vector<uint32_t> from,
             const uint32_t *ranks) {
    for (const Entries &e : share)
        for (uint32_t k = 0; k < e.n; k++) {
            uint32_t range = (uint32_t)e.index[k] >> of.width;
            e.index[k] = (int32_t)(of.distinct[range] + ranks[from[range]++]);
        }
}

// The range with the entry that begins part t of `parts`, approximately.
size_t cut_at(const Ranges &of, size_t t, size_t parts) {
    auto entry = (uint32_t)((uint64_t)of.first[of.n] * t / parts);
    auto at = std::lower_bound(of.first.begin(), of.first.end() - 1, entry);
    return t == parts ? of.n : (size_t)(at - of.first.begin());
}

int64_t number(tk_chunks &all, StoredChunk &chunk, uint32_t *scratch, int32_t *ids) {
    int threads = std::max(1, all.cut.threads);
    auto shares = shares_of(entries_of(chunk), (size_t)chunk.entries, threads);
    auto count = (int64_t)shares.size();
    Ranges ranges = ranges_of(shares, threads);
    parallel_for(count, threads,
                 [&](int64_t t) { spread(shares[t], ranges.begin[t], ranges.width, scratch); });
    parallel_for(count, threads, [&](int64_t t) {
        size_t low = cut_at(ranges, t, count), high = cut_at(ranges, t + 1, count);
        rank_ranges(ranges, low, high, scratch, ids);
    });
    gather(ranges, ids);
    parallel_for(count, threads,
                 [&](int64_t t) { replace(shares[t], ranges, ranges.begin[t], scratch); });
    return ranges.distinct[ranges.n];
}

} // namespace
} // namespace tusk

using namespace tusk;

int tk_chunk_number(tk_chunks *all, int64_t number, uint32_t *scratch, int32_t *ids, int64_t *n) {
    return code_of([&]() -> int {
        if (cancelled(all->cut.cancel_mark))
            return TK_CANCELLED;
        StoredChunk &chunk = all->list[(size_t)number];
        *n = tusk::number(*all, chunk, scratch, ids);
        chunk.features = *n;
        return TK_OK;
    });
}

void tk_chunk_replace(tk_chunks *all, int64_t number, const int32_t *table) {
    for (const Entries &e : entries_of(all->list[(size_t)number]))
        for (uint32_t k = 0; k < e.n; k++)
            e.index[k] = table[e.index[k]];
}

int tk_chunk_put(tk_chunks *all, int64_t number, uint64_t key, uint32_t width) {
    return code_of([&]() -> int {
        StoredChunk &chunk = all->list[(size_t)number];
        chunk.keys.assign(1, key);
        chunk.widths.assign(1, width);
        chunk.weights = width;
        chunk.shift = std::bit_width(width - 1);
        return TK_OK;
    });
}
