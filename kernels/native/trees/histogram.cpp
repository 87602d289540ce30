// Adds rows up into histograms.
#include "histogram.hpp"

#include <algorithm>
#include <mutex>

#include "../shared/pool.hpp"

namespace tusk {
namespace {

constexpr int AHEAD = 8; // rows between a prefetch and its use

// Sums one block, (total bins,) from 0.
void add_block(const Rows &rows, const uint32_t *which, int64_t n, Addend *sums) {
    int32_t d = rows.bins->features();
    const int32_t *first = rows.bins->first.data();
    std::fill(sums, sums + rows.bins->total(), Addend{0, 0});
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n) {
            const uint8_t *next = rows.codes + (size_t)which[i + AHEAD] * d;
            __builtin_prefetch(next);
            __builtin_prefetch(next + d - 1);
            __builtin_prefetch(rows.addends + which[i + AHEAD]);
        }
        const uint8_t *code = rows.codes + (size_t)which[i] * d;
        Addend add = rows.addends[which[i]];
        for (int32_t f = 0; f < d; f++)
            sums[first[f] + code[f]] += add;
    }
}

// The same for rows in the core's cache. Half a cell is the largest unit by which an address may
// be scaled.
void add_near(const Rows &rows, const uint32_t *which, int64_t n, Addend *sums) {
    size_t d = rows.bins->features();
    std::fill(sums, sums + rows.bins->total(), Addend{0, 0});
    auto *halves = (char *)sums;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t *cell = rows.cells + which[i] * d;
        Addend add = rows.addends[which[i]];
#pragma GCC unroll 4
        for (size_t f = 0; f < d; f++)
            *(Addend *)(halves + 8 * (size_t)cell[f]) += add;
    }
}

void widen(const Addend *sums, int32_t n, Sum *out) {
    for (int32_t b = 0; b < n; b++)
        out[b] += sum_of(sums[b]);
}

inline void add(Addend a, Addend *to) {
    *to += a;
}
inline void add(Addend a, Sum *to) {
    *to += sum_of(a);
}

template <class Cell>
void add_one(const Rows &rows, const uint32_t *which, int64_t n, int32_t f, Cell *out) {
    size_t d = rows.bins->features();
    std::fill_n(out, rows.bins->count(f), Cell{});
    for (int64_t i = 0; i < n; i++)
        add(rows.addends[which[i]], out + rows.codes[which[i] * d + f]);
}

} // namespace

void add_up_one(const Rows &rows, const uint32_t *which, int64_t n, int32_t f, Sum *out) {
    add_one(rows, which, n, f, out);
}

void add_up_one(const Rows &rows, const uint32_t *which, int64_t n, int32_t f, Addend *out) {
    add_one(rows, which, n, f, out);
}

void add_up(const Rows &rows, const uint32_t *which, int64_t n, int, Addend *out,
            std::vector<Addend> &) {
    rows.cells ? add_near(rows, which, n, out) : add_block(rows, which, n, out);
}

void subtract(const Sum *less, int32_t n, Sum *from) {
    for (int32_t b = 0; b < n; b++)
        from[b] -= less[b];
}

// Word by word, which compilers vectorize.
void subtract(const Addend *less, int32_t n, Addend *from) {
    auto *a = (const int64_t *)less;
    auto *b = (int64_t *)from;
    for (int64_t i = 0; i < 2 * (int64_t)n; i++)
        b[i] -= a[i];
}

void add_up(const Rows &rows, const uint32_t *which, int64_t n, int threads, Sum *out,
            std::vector<Addend> &blocks) {
    int32_t bins = rows.bins->total();
    constexpr int64_t LEAST = 4096; // rows that justify another thread
    int64_t length = std::clamp<int64_t>((n + threads - 1) / threads, LEAST, BLOCK);
    int64_t parts = (n + length - 1) / length;
    int64_t together = std::min<int64_t>(parts, threads);
    if ((int64_t)blocks.size() < together * bins)
        blocks.resize(together * bins);
    std::fill(out, out + bins, Sum{0, 0, 0});
    std::mutex merging;
    parallel_for(together, threads, [&](int64_t slot) {
        Addend *sums = blocks.data() + slot * bins;
        for (int64_t part = slot; part < parts; part += together) {
            int64_t begin = part * length;
            add_block(rows, which + begin, std::min(length, n - begin), sums);
            std::lock_guard<std::mutex> lock(merging);
            widen(sums, bins, out);
        }
    });
}

} // namespace tusk
