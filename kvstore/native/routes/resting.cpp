// Between passes: all weights are in the file, and workers acquire them in pieces.
#include <cstdio>
#include <string>

#include "state.hpp"

namespace tusk {
namespace {

constexpr uint64_t PIECE_KEYS = 1 << 16;

int32_t chunk_of(uint64_t key) {
    return static_cast<int32_t>(key / PIECE_KEYS);
}

Resting &of_worker(ks_routes &r, int32_t worker) {
    std::scoped_lock guard(r.resting_lock);
    return r.rest[worker];
}

// Adds the parts of a piece, indices begin .. end of region j, with weights at `at`. Returns the
// number of buckets that begin in it.
int64_t add_parts(const ks_routes &r, const Links &links, int32_t j, int64_t begin, int64_t end,
                  char *at, std::vector<tusk_frame> &parts) {
    int64_t buckets = 0;
    for (int32_t i = j; i < r.plan.chunks; i++) {
        int64_t first = std::max<int64_t>(begin, links.takes_at(i));
        int64_t last = std::min<int64_t>(end, int64_t(links.takes_at(i)) + links.takes(i));
        if (first >= last)
            continue;
        buckets += first == links.takes_at(i);
        parts.push_back({at + r.bytes(first - begin), r.stamps[static_cast<std::size_t>(i)],
                         static_cast<uint32_t>(last - first) * r.several()});
    }
    return buckets;
}

// Start of the piece of a key in its region, in weights; -1 for an invalid key.
int64_t begin_of(const ks_routes &r, const Links &links, uint64_t key, uint32_t width) {
    int32_t j = chunk_of(key);
    int64_t begin = links.takes_at(j) + static_cast<int64_t>(key % PIECE_KEYS) * r.plan.piece;
    int64_t end = std::min(begin + r.plan.piece, r.places(j));
    return begin + width == end ? begin : -1;
}

bool read_piece(ks_routes &r, const Asked &asked, int64_t k, Links &links, Resting &mine, char *at,
                char *error) {
    uint32_t width = asked.widths[k] / r.several();
    int32_t j = chunk_of(asked.keys[k]);
    if (!links.read_takes(j, error))
        return false;
    int64_t begin = begin_of(r, links, asked.keys[k], width);
    if (begin < 0) {
        std::snprintf(error, TUSK_STORE_ERROR, "key %llu is no piece of chunk %d",
                      static_cast<unsigned long long>(asked.keys[k]), j);
        return false;
    }
    int64_t offset = r.plan.region[j] + begin * r.plan.weight_size;
    if (!read_at(r.plan.weights, at, r.bytes(width), offset, error))
        return false;
    mine.offsets.push_back(offset);
    mine.frames.push_back({at, 0, asked.widths[k]});
    mine.first.push_back(mine.parts.size());
    mine.buckets += add_parts(r, links, j, begin, begin + width, at, mine.parts);
    return true;
}

} // namespace

int acquire_resting(ks_routes &r, int32_t worker, const Asked &asked, char *error) {
    Resting &mine = of_worker(r, worker);
    mine = {};
    std::size_t size = 0;
    for (int64_t k = 0; k < asked.n; k++)
        size += r.bytes_of(asked.widths[k]);
    mine.memory = take(size);
    mine.frames.reserve(static_cast<std::size_t>(asked.n));
    Links links(r.plan);
    char *at = mine.memory.get();
    for (int64_t k = 0; k < asked.n; k++) {
        if (!read_piece(r, asked, k, links, mine, at, error))
            return TUSK_STORE_FAILED;
        asked.out[k] = &mine.frames.back();
        at += r.bytes_of(asked.widths[k]);
    }
    mine.first.push_back(mine.parts.size());
    std::scoped_lock guard(r.counting);
    r.counted.wanted += mine.buckets;
    r.counted.requests += mine.buckets;
    r.counted.found += mine.buckets;
    r.counted.bytes_read += static_cast<int64_t>(size);
    return TUSK_ACQUIRED;
}

void release_resting(ks_routes &r, int32_t worker, int64_t n, int changed) {
    Resting &mine = of_worker(r, worker);
    char error[KS_ERROR] = "";
    int64_t bytes = 0;
    for (std::size_t k = 0; changed && k < static_cast<std::size_t>(n); k++) {
        const tusk_frame &frame = mine.frames[k];
        std::size_t size = r.bytes_of(frame.width);
        if (!write_at(r.plan.weights, frame.weights, size, mine.offsets[k], error)) {
            std::string text(error); // the next call reports it
            r.thread.add([text](char *e) {
                std::snprintf(e, KS_ERROR, "%s", text.c_str());
                return false;
            });
            return;
        }
        bytes += static_cast<int64_t>(size);
    }
    mine = {};
    std::scoped_lock guard(r.counting);
    r.counted.written += changed ? n : 0;
    r.counted.bytes_written += bytes;
}

// Writes the weights that are in memory only to the file: those that go from the last chunk to the
// next.
bool settle_down(ks_routes &r, char *error) {
    if (!r.thread.idle(error))
        return false;
    for (int32_t k = 0; k < r.plan.chunks; k++)
        if (!r.behind.flush(k, r.writer(error)))
            return false;
    if (r.asked < 0 || r.source < 0)
        return true;
    int32_t i = r.source;
    std::size_t size = r.bytes(r.next_links.takes(i));
    auto at = static_cast<int64_t>(r.bytes(r.next_links.takes_at(i)));
    if (!r.write_run(r.next.get() + at, size, r.plan.region[r.asked] + at, error))
        return false;
    r.asked = r.source = -1;
    return true;
}

} // namespace tusk
