// Table of the frames in memory by key, in shards that are locked one at a time. 64 neighbouring
// keys share a shard, so that its lock is taken once for all of them, and lie in neighbouring
// buckets. Buckets are chains. Their number grows by one at a time (linear hashing, Litwin, VLDB
// 1980), in a mapping of which only the part in use is resident.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "../frames.h"
#include "arena.hpp"

namespace tusk {

// The stamps of payloads that are not in memory: maps a key to its stamp, unless that is 0.

class Stamps {
public:
    double get(std::uint64_t key) const {
        if (entries_.empty())
            return 0;
        const Entry &entry = entries_[find(entries_, key)];
        return entry.key == key ? entry.stamp : 0;
    }

    // Strong guarantee: bad_alloc leaves it unchanged.
    void put(std::uint64_t key, double stamp) {
        if (stamp == 0 && get(key) == 0)
            return;
        if ((used_ + 1) * 4 > entries_.size() * 3)
            grow();
        Entry &entry = entries_[find(entries_, key)];
        used_ += entry.key != key;
        entry = {key, stamp};
    }

    std::size_t bytes() const { return entries_.size() * sizeof(Entry); }

private:
    static constexpr std::uint64_t NONE = ~std::uint64_t(0); // keys are below 2^63
    struct Entry {
        std::uint64_t key = NONE;
        double stamp = 0;
    };
    using Entries = std::vector<Entry>;

    // The position of a key, or where it would be: linear probing from its Fibonacci hash.
    static std::size_t find(const Entries &entries, std::uint64_t key) {
        std::size_t mask = entries.size() - 1;
        std::size_t at = (key * 0x9e3779b97f4a7c15u >> 20) & mask;
        while (entries[at].key != key && entries[at].key != NONE)
            at = (at + 1) & mask;
        return at;
    }

    void grow() {
        Entries larger(entries_.empty() ? 16 : entries_.size() * 2);
        for (const Entry &entry : entries_)
            if (entry.key != NONE)
                larger[find(larger, entry.key)] = entry;
        entries_.swap(larger);
    }

    Entries entries_;
    std::size_t used_ = 0;
};

enum class State : std::uint8_t {
    READY,
    READING,  // by a worker, others wait for it
    ABANDONED // that worker failed: a waiting call reads it
};

// Lies behind the weights in their last unit. Fields that are not atomic change under the shard's
// lock.
struct Frame {
    tusk_frame seen;
    std::uint64_t key;
    Frame *next;                     // in the bucket
    std::atomic<std::uint32_t> pins; // calls that hold it or wait for it; increases under the lock
    State state;
    std::atomic<bool> changed; // since it was read or written
    bool stored;               // LevelDB has a payload
    bool wanted;               // since the clock's hand passed
    bool queued;               // to be written
};
static_assert(sizeof(Frame) <= UNIT - 8);

inline std::size_t units_of(std::size_t width, std::size_t weight_size) {
    std::size_t weights = (width * weight_size + 7) / 8 * 8;
    return (weights + sizeof(Frame) + UNIT - 1) / UNIT;
}

// The shard and bucket of a key.
struct Place {
    explicit Place(std::uint64_t key) {
        std::uint64_t hash = key >> 6; // the finalizer of MurmurHash3
        hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
        hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
        hash ^= hash >> 33;
        shard = hash >> 58;
        bucket = hash << 6 ^ (key & 63) ^ (hash >> 40 & 63);
    }
    std::uint64_t shard, bucket;
};

struct alignas(64) Shard {
    Frame *find(std::uint64_t key, const Place &place) const {
        Frame *frame = head(place).load(std::memory_order_relaxed);
        while (frame && frame->key != key)
            frame = frame->next;
        return frame;
    }
    void insert(Frame *frame);
    void remove(Frame *frame);
    std::atomic<Frame *> &head(const Place &place) const {
        std::size_t n = size.load(std::memory_order_relaxed), low = std::bit_floor(n);
        std::size_t at = place.bucket & (2 * low - 1);
        return buckets[at < n ? at : at & (low - 1)];
    }

    std::mutex mutex;
    std::condition_variable published;
    std::uint32_t waiting = 0; // calls, for a frame of this shard
    std::atomic<Frame *> *buckets = nullptr;
    std::atomic<std::size_t> size = 64; // number of buckets
    std::size_t most = 64, count = 0;
    std::size_t hand = 0; // the clock's bucket
    Stamps stamps;

private:
    void split();
};

class FrameTable {
public:
    static constexpr std::size_t SHARDS = 64;

    // Uses at most this many bytes for buckets. Throws bad_alloc.
    explicit FrameTable(std::size_t bytes);
    ~FrameTable();
    FrameTable(const FrameTable &) = delete;
    FrameTable &operator=(const FrameTable &) = delete;

    // Prefetches what a key's lookup will need, in two steps.
    void expect_bucket(std::uint64_t key) const {
        Place place(key);
        __builtin_prefetch(&shards[place.shard].head(place));
    }
    void expect_frame(std::uint64_t key) const {
        Place place(key);
        if (Frame *frame = shards[place.shard].head(place).load(std::memory_order_relaxed))
            __builtin_prefetch(frame, 1);
    }

    std::array<Shard, SHARDS> shards;

private:
    void *mapped_ = nullptr;
    std::size_t bytes_;
};

// Holds the lock of one shard at a time, as long as the keys stay in that shard.
class ShardLock {
public:
    explicit ShardLock(FrameTable &table) : table_(table) {}
    Shard &of(const Place &place) {
        Shard &shard = table_.shards[place.shard];
        if (lock_.mutex() != &shard.mutex || !lock_.owns_lock()) {
            free();
            lock_ = std::unique_lock(shard.mutex);
        }
        return shard;
    }
    void free() {
        if (lock_.owns_lock())
            lock_.unlock();
    }
    std::unique_lock<std::mutex> &lock() { return lock_; }

private:
    FrameTable &table_;
    std::unique_lock<std::mutex> lock_;
};

} // namespace tusk
