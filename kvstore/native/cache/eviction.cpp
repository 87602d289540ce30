// Makes room for other frames. The clock selects frames that are neither held nor recently used.
// Changed ones are written first, many payloads per batch, in key order. A frame stays in the
// table while it is written: a call that wants it finds it, and then it survives. Writers and
// removers take turns (`evicting`), so only one of them writes a key at a time.
#include <algorithm>

#include "../leveldb/writing.hpp"
#include "frames.hpp"

namespace tusk {
namespace {

constexpr std::size_t STEP = 512; // buckets visited per lock of a shard

bool all_zero(const tusk_frames &frames, const Frame &frame) {
    auto none = [&](const auto *weights) { return !count_nonzero(weights, frame.seen.width); };
    return frames.weight_size == 4 ? none(static_cast<const float *>(frame.seen.weights))
                                   : none(static_cast<const double *>(frame.seen.weights));
}

// Puts a frame into a batch. Its shard is locked. Changes made after this are written again.
void put(tusk_frames &frames, Frame &frame, Batch &batch, Tally &tally) {
    frame.changed.exchange(false);
    auto add = [&](const auto *weights) {
        batch.put(frame.key, weights, frame.seen.width, tally);
    };
    try {
        if (frames.weight_size == 4)
            add(static_cast<const float *>(frame.seen.weights));
        else
            add(static_cast<const double *>(frame.seen.weights));
    } catch (...) {
        frame.changed.store(true);
        throw;
    }
}

// Removes an unchanged frame without pins from memory. Its shard is locked.
void remove(tusk_frames &frames, Shard &shard, Frame *frame, FrameTally &tally) {
    if (frames.keep_stamps)
        shard.stamps.put(frame->key, frame->seen.stamp);
    shard.remove(frame);
    give_back(frames, frame);
    tally.evicted++;
}

// Writes the queue and, if it may, evicts it.
class WriteBack {
public:
    WriteBack(tusk_frames &frames, bool evicts, FrameTally &tally)
        : frames_(frames), evicts_(evicts), tally_(tally) {}

    // Adds the bytes of evicted frames to *freed. Afterwards the queue is empty in any case.
    int run(std::size_t *freed, char *error) {
        Stopwatch watch(tally_.writing);
        auto &queue = frames_.queue;
        std::sort(queue.begin(), queue.end(), [](Frame *a, Frame *b) { return a->key < b->key; });
        int code = KS_OK;
        for (std::size_t a = 0, b = 0; a < queue.size(); a = b) {
            b = a;
            if (!code)
                code = guarded([&] { return write(a, b, error); }, error);
            b = code ? queue.size() : b;
            int settled = guarded([&] { return settle(a, b, code != KS_OK, freed); }, error);
            code = code ? code : settled;
        }
        queue.clear();
        return code;
    }

private:
    // Writes a batch from frame a of the queue on; sets b to its end.
    int write(std::size_t a, std::size_t &b, char *error) {
        ks_store *store = frames_.store;
        if (!store) {
            std::snprintf(error, KS_ERROR, "the store is closed");
            return KS_FAILED;
        }
        Tally tally(*store);
        Batch batch;
        in_batch_.clear();
        ShardLock lock(frames_.table);
        auto most = static_cast<int64_t>(frames_.budget.batch);
        for (b = a; b < frames_.queue.size() && tally.bytes_written < most; b++) {
            Frame &frame = *frames_.queue[b];
            lock.of(Place(frame.key));
            in_batch_.push_back(false);
            if (evicts_ && frame.pins.load(std::memory_order_acquire))
                continue; // it survives, and a worker writes to it
            if (!frame.stored && all_zero(frames_, frame))
                frame.changed.store(false);
            if (!frame.changed.load())
                continue;
            put(frames_, frame, batch, tally);
            in_batch_.back() = true;
        }
        lock.free();
        if (int code = tally.writes ? batch.write(store->writing, tally, error) : KS_OK)
            return code;
        tally_.written += tally.writes;
        tally_.bytes_written += tally.bytes_written;
        return KS_OK;
    }

    // Finishes frames a .. b - 1 after their batch. All leave the queue, even if one throws.
    int settle(std::size_t a, std::size_t b, bool failed, std::size_t *freed) {
        ShardLock lock(frames_.table);
        bool no_memory = false;
        for (std::size_t i = a; i < b; i++) {
            Frame *frame = frames_.queue[i];
            Shard &shard = lock.of(Place(frame->key));
            bool put = i - a < in_batch_.size() && in_batch_[i - a];
            frame->queued = false;
            if (failed && put)
                frame->changed.store(true);
            frame->stored = frame->stored || (put && !failed);
            if (failed || !evicts_ || frame->pins.load(std::memory_order_acquire) ||
                frame->changed.load())
                continue;
            std::size_t bytes = block_units(frames_, *frame) * UNIT;
            try {
                remove(frames_, shard, frame, tally_);
                *freed += bytes;
            } catch (const std::bad_alloc &) { // no memory for its stamp
                no_memory = true;
            }
        }
        if (no_memory)
            throw std::bad_alloc();
        return KS_OK;
    }

    tusk_frames &frames_;
    bool evicts_;
    FrameTally &tally_;
    std::vector<bool> in_batch_; // whether the batch has each frame
};

// Frees this many bytes, or all frames without pins; *freed is the number. The caller holds
// `evicting`.
class Clock {
public:
    Clock(tusk_frames &frames, FrameTally &tally) : frames_(frames), tally_(tally) {}

    int run(std::size_t wanted, std::size_t *freed, char *error) {
        wanted_ = wanted;
        // Two rounds: the first one clears the marks of recently used frames.
        std::size_t most = 0;
        for (const Shard &shard : frames_.table.shards)
            most = std::max(most, shard.size.load());
        std::size_t steps = 2 * FrameTable::SHARDS * (most / STEP + 2);
        for (; steps && *freed < wanted; steps--) {
            std::size_t shard = frames_.hand++ % FrameTable::SHARDS;
            step(frames_.table.shards[shard], freed);
            if (queued_ >= frames_.budget.batch || *freed + queued_ >= wanted)
                if (int code = write(freed, error))
                    return code;
        }
        return write(freed, error);
    }

private:
    // Checks some buckets: unchanged frames are evicted at once, others are queued.
    void step(Shard &shard, std::size_t *freed) {
        std::scoped_lock lock(shard.mutex);
        std::size_t n = shard.size.load(std::memory_order_relaxed);
        for (std::size_t i = 0; i < std::min(STEP, n); i++) {
            if (shard.hand >= n)
                shard.hand = 0;
            Frame *next = shard.buckets[shard.hand++].load(std::memory_order_relaxed);
            while (Frame *frame = next) {
                next = frame->next;
                if (*freed + queued_ < wanted_)
                    look_at(shard, frame, freed);
            }
            if (*freed + queued_ >= wanted_ || queued_ >= frames_.budget.batch)
                return;
        }
    }

    void look_at(Shard &shard, Frame *frame, std::size_t *freed) {
        if (frame->queued || frame->pins.load(std::memory_order_acquire))
            return;
        if (frame->wanted) {
            frame->wanted = false;
            return;
        }
        std::size_t bytes = block_units(frames_, *frame) * UNIT;
        if (frame->changed.load()) {
            frames_.queue.push_back(frame);
            frame->queued = true;
            queued_ += bytes;
        } else {
            remove(frames_, shard, frame, tally_);
            *freed += bytes;
        }
    }

    int write(std::size_t *freed, char *error) {
        queued_ = 0;
        if (frames_.queue.empty())
            return KS_OK;
        return WriteBack(frames_, true, tally_).run(freed, error);
    }

    tusk_frames &frames_;
    FrameTally &tally_;
    std::size_t wanted_ = 0, queued_ = 0; // bytes
};

int evict(tusk_frames &frames, std::size_t wanted, std::size_t *freed, FrameTally &tally,
          char *error) {
    auto work = [&] { return Clock(frames, tally).run(wanted, freed, error); };
    int code = guarded(work, error);
    for (Frame *frame : frames.queue) // restores the invariant after a lack of memory
        frame->queued = false;
    frames.queue.clear();
    return code;
}

// Queues the changed frames of the next keys from *first on, as many as the queue has room for.
// Returns whether there may be more, from the new *first on.
bool queue_changed(tusk_frames &frames, std::uint64_t *first) {
    auto &queue = frames.queue;
    auto most = std::max<std::size_t>(frames.budget.lists / sizeof(Frame *) / 2, 1);
    auto by_key = [](const Frame *a, const Frame *b) { return a->key < b->key; };
    bool more = false;
    queue.reserve(2 * most);
    for (Shard &shard : frames.table.shards) {
        std::scoped_lock lock(shard.mutex);
        std::size_t n = shard.size.load(std::memory_order_relaxed);
        for (std::size_t i = 0; i < n; i++) {
            Frame *frame = shard.buckets[i].load(std::memory_order_relaxed);
            for (; frame; frame = frame->next) {
                if (!frame->changed.load(std::memory_order_acquire) || frame->key < *first)
                    continue;
                if (queue.size() == 2 * most) {
                    auto middle = queue.begin() + static_cast<std::ptrdiff_t>(most);
                    std::nth_element(queue.begin(), middle, queue.end(), by_key);
                    queue.erase(middle, queue.end());
                    more = true;
                }
                queue.push_back(frame);
            }
        }
    }
    if (more && queue.size() > most) { // keys beyond may have missed neighbours
        auto middle = queue.begin() + static_cast<std::ptrdiff_t>(most);
        std::nth_element(queue.begin(), middle, queue.end(), by_key);
        queue.erase(middle, queue.end());
    }
    if (!queue.empty())
        *first = (*std::max_element(queue.begin(), queue.end(), by_key))->key + 1;
    return more;
}

} // namespace

int take_room(tusk_frames &frames, std::size_t units, std::size_t wanted, void **block,
              FrameTally &tally, char *error) {
    if ((*block = frames.arena.take(units)))
        return KS_OK;
    std::scoped_lock turn(frames.evicting);
    std::size_t part = std::min(wanted, 8 * frames.budget.batch); // then another thread's turn
    std::size_t bytes = std::max({units * UNIT, part, frames.budget.batch});
    for (std::size_t freed = 1; !(*block = frames.arena.take(units));) {
        if (!freed)
            return NO_ROOM;
        freed = 0;
        if (int code = evict(frames, bytes, &freed, tally, error))
            return code;
    }
    return KS_OK;
}

int evict_all(tusk_frames &frames, FrameTally &tally, char *error) {
    std::scoped_lock turn(frames.evicting);
    for (std::size_t freed = 1; freed;) {
        freed = 0;
        if (int code = evict(frames, frames.arena.bytes(), &freed, tally, error))
            return code;
    }
    return KS_OK;
}

int flush(tusk_frames &frames, FrameTally &tally, char *error) {
    std::scoped_lock turn(frames.evicting);
    std::uint64_t first = 0;
    bool more = true;
    auto work = [&] {
        more = queue_changed(frames, &first);
        std::size_t freed = 0;
        if (frames.queue.empty())
            return static_cast<int>(KS_OK);
        return WriteBack(frames, false, tally).run(&freed, error);
    };
    while (more)
        if (int code = guarded(work, error)) {
            frames.queue.clear();
            return code;
        }
    return KS_OK;
}

} // namespace tusk
