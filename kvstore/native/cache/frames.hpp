// The payload cache of one training: shared declarations. Memory. All frames are in an arena of a
// fixed size, and a call may request a worker's share of it. So the frames that all workers hold
// never exceed the arena. A call that needs room gets it by evicting frames without pins; calls
// never wait for each other's memory, and so cannot deadlock. If all frames fit, one call may
// request all of them: the workers then hold the same frames. There is one exception: held frames
// may be laid out so that no free run is long enough. Then the call releases everything that it
// has and waits until it is alone (the others hold frames and end, or are in the same wait and
// hold nothing). It empties the arena, and allocates its frames contiguously. Order of locks:
// evicting, a shard, the arena. Never two shards at a time. No lock is held while a caller's
// cancellation is polled.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "../leveldb/reading.hpp"
#include "arena.hpp"
#include "frame_gate.hpp"
#include "frame_table.hpp"

namespace tusk {

// Counts of one call. pushed, hits and requests are disjoint and add up to wanted. A payload is
// pushed if another worker read it and delivered it before this one requested it (deliveries.hpp).
// It is a hit if it is in memory otherwise, or being read for another worker.
struct FrameTally {
    int64_t wanted = 0, hits = 0, pushed = 0, requests = 0, found = 0, evicted = 0, written = 0;
    int64_t bytes_read = 0, bytes_written = 0, reading = 0, writing = 0, waiting = 0;
};

struct alignas(64) Worker {
    std::atomic<int64_t> held = 0; // number of frames, including those of a running call
    // The keys that it will acquire next, and frames delivered for them.
    std::atomic<bool> expects = false;
    std::mutex lock; // guards the following
    const std::uint64_t *expected = nullptr;
    std::size_t n_expected = 0;
    std::size_t bytes = 0; // of frames that it holds, and of delivered ones
    std::vector<Frame *> delivered;
    std::size_t held_bytes = 0; // of frames that it holds
};

// Adds the nanoseconds of its lifetime.
class Stopwatch {
public:
    explicit Stopwatch(int64_t &total) : total_(total), start_(Clock::now()) {}
    ~Stopwatch() {
        using std::chrono::nanoseconds;
        total_ += std::chrono::duration_cast<nanoseconds>(Clock::now() - start_).count();
    }
    Stopwatch(const Stopwatch &) = delete;
    Stopwatch &operator=(const Stopwatch &) = delete;

private:
    using Clock = std::chrono::steady_clock;
    int64_t &total_;
    Clock::time_point start_;
};

// How the memory is divided.
struct Budget {
    explicit Budget(std::size_t memory)
        : table(memory / 16), batch(std::min<std::size_t>(memory / 64, 1 << 20)),
          lists(memory / 32), arena(memory) {
        arena -= table + 3 * batch + lists + Arena::overhead(memory);
        arena -= arena % UNIT;
    }
    std::size_t table; // buckets
    std::size_t batch; // bytes of a write batch, which LevelDB copies once as it grows
    std::size_t lists; // of frames to be written
    std::size_t arena;
};

} // namespace tusk

struct tusk_frames {
    tusk_frames(ks_store &given, std::size_t memory, const ks_sharing &sharing, bool stamps)
        : weight_size(static_cast<std::size_t>(given.weight_size)), keep_stamps(stamps),
          pushes(sharing.pushes != 0), budget(memory), arena(budget.arena), table(budget.table),
          workers(static_cast<std::size_t>(sharing.workers)),
          share(arena.bytes() / (holds_all(sharing.all_bytes) ? 1 : workers.size())),
          store(&given) {}
    bool holds_all(int64_t bytes) const {
        return bytes > 0 && static_cast<std::size_t>(bytes) <= arena.bytes();
    }

    std::size_t weight_size;
    bool keep_stamps;
    bool pushes; // workers deliver payloads that they read
    tusk::Budget budget;
    tusk::Arena arena;
    tusk::FrameTable table;
    std::vector<tusk::Worker> workers;
    std::size_t share;             // bytes that one call may request
    std::atomic<ks_store *> store; // nullptr while a checkpoint has it closed
    tusk::FrameGate gate;

    std::mutex evicting; // who writes and removes frames; also guards these two
    std::size_t hand = 0;
    std::vector<tusk::Frame *> queue;

    std::mutex counting;
    tusk::FrameTally counted;
};

namespace tusk {

// Bytes of the memory that the frames of one of n workers may use.
inline std::size_t share_of(std::size_t memory, std::size_t workers) {
    return Budget(memory).arena / workers;
}

constexpr int NO_ROOM = -1; // returned though no frame without pins is left in memory

inline std::size_t block_units(const tusk_frames &frames, const Frame &frame) {
    return units_of(frame.seen.width, frames.weight_size);
}

inline void give_back(tusk_frames &frames, Frame *frame) {
    std::size_t units = block_units(frames, *frame);
    frames.arena.give(frame->seen.weights, units);
}

void count(tusk_frames &frames, const FrameTally &tally);

// Takes a block; if it must, evicts frames, as many as the wanted bytes need. Returns NO_ROOM or a
// ks_code.
int take_room(tusk_frames &frames, std::size_t units, std::size_t wanted, void **block,
              FrameTally &tally, char *error);
// Evicts all frames without pins.
int evict_all(tusk_frames &frames, FrameTally &tally, char *error);
// Writes all changed frames.
int flush(tusk_frames &frames, FrameTally &tally, char *error);

} // namespace tusk
