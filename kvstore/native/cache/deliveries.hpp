// Push-based sharing: section 4.2 of Qin, Torres, Rusu (VLDB 2017), on frames. A worker announces
// the keys that it will acquire next. A worker that reads one of these keys from the store
// delivers its frame: it pins the frame on behalf of the other, so that the frame stays in memory
// until that worker takes it. The keys of a chunk ascend, so the chunk itself is the inverted
// index for keys that a worker needs. Deliveries and the frames that a worker holds take no more
// than its share together, so pinned frames still never exceed the arena. Order of locks: a shard,
// then a worker's.
#pragma once

#include <algorithm>

#include "frames.hpp"

namespace tusk {

// Delivers a frame read by `worker` to all others that expect it. The shard of the frame is
// locked.
inline void deliver(tusk_frames &frames, std::size_t worker, Frame *frame) {
    std::size_t bytes = block_units(frames, *frame) * UNIT;
    for (std::size_t other = 0; other < frames.workers.size(); other++) {
        Worker &to = frames.workers[other];
        if (other == worker || !to.expects.load(std::memory_order_relaxed))
            continue;
        std::scoped_lock lock(to.lock);
        const std::uint64_t *end = to.expected + to.n_expected;
        if (to.bytes + bytes > frames.share || !std::binary_search(to.expected, end, frame->key))
            continue;
        frame->pins.fetch_add(1, std::memory_order_acq_rel);
        to.bytes += bytes;
        to.delivered.push_back(frame);
    }
}

// Frames delivered to a worker, by key. It expects nothing afterwards, and owns the pins.
inline std::vector<Frame *> taken_by(Worker &worker) {
    std::vector<Frame *> found;
    if (!worker.expects.load(std::memory_order_relaxed))
        return found;
    {
        std::scoped_lock lock(worker.lock);
        found.swap(worker.delivered);
        worker.n_expected = 0;
        worker.bytes = 0;
        worker.expects = false;
    }
    std::sort(found.begin(), found.end(), [](Frame *a, Frame *b) { return a->key < b->key; });
    return found;
}

inline void unpin(Frame *frame) {
    frame->pins.fetch_sub(1, std::memory_order_release);
}

// Takes all deliveries back.
inline void drop_deliveries(tusk_frames &frames) {
    for (Worker &worker : frames.workers)
        for (Frame *frame : taken_by(worker))
            unpin(frame);
}

} // namespace tusk
