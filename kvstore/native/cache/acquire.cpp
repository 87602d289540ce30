// Acquiring and releasing frames.
#include <cstdio>

#include "../api.h"
#include "frame_call.hpp"

namespace tusk {
namespace {

// Checks the arguments of a call before it begins.
int check(const tusk_frames &frames, int32_t worker, const Wanted &wanted, std::size_t *needed,
          char *error) {
    auto [keys, widths, n] = wanted;
    auto workers = static_cast<int32_t>(frames.workers.size());
    if (worker < 0 || worker >= workers) {
        std::snprintf(error, TUSK_STORE_ERROR, "workers are 0 to %d, got %d", workers - 1, worker);
        return TUSK_STORE_FAILED;
    }
    std::size_t share = frames.share, bytes = 0;
    for (int64_t i = 0; i < n; i++) {
        if ((i && keys[i] <= keys[i - 1]) || keys[i] >> 63 || !widths[i] || widths[i] > WIDEST) {
            std::snprintf(error, TUSK_STORE_ERROR,
                          "keys must rise and stay below 2^63, and have 1 to %u weights: got "
                          "key %llu with %u",
                          WIDEST, static_cast<unsigned long long>(keys[i]), widths[i]);
            return TUSK_STORE_FAILED;
        }
        bytes += units_of(widths[i], frames.weight_size) * UNIT;
    }
    *needed = bytes;
    if (bytes <= share)
        return TUSK_ACQUIRED;
    std::snprintf(error, TUSK_STORE_ERROR,
                  "the %lld partitions of a chunk take %zu bytes, a worker's share is %zu: give "
                  "more memory, fewer rows a chunk, or fewer workers",
                  static_cast<long long>(n), bytes, share);
    return TUSK_CHUNK_TOO_LARGE;
}

int acquire(tusk_frames &frames, int32_t number, const Wanted &wanted, tusk_frame **out,
            Cancel cancelled, char *error) {
    std::size_t bytes = 0;
    if (int code = check(frames, number, wanted, &bytes, error))
        return code;
    if (!wanted.n)
        return TUSK_ACQUIRED;
    Worker &worker = frames.workers[static_cast<std::size_t>(number)];
    int64_t held = 0;
    if (!worker.held.compare_exchange_strong(held, wanted.n)) {
        std::snprintf(error, TUSK_STORE_ERROR,
                      "worker %d holds %lld frames still: release them before it acquires others",
                      number, static_cast<long long>(held));
        return TUSK_STORE_FAILED;
    }
    bool inside = frames.gate.enter(cancelled);
    int code = TUSK_ACQUIRE_CANCELLED;
    if (inside)
        code = Call(frames, static_cast<std::size_t>(number), wanted, out, cancelled, error)
                   .run(&inside);
    worker.held_bytes = code ? 0 : bytes;
    if (code) {
        worker.held.store(0);
        if (inside)
            frames.gate.leave();
    }
    return code;
}

} // namespace
} // namespace tusk

int ks_acquire(tusk_frames *frames, int32_t worker, const uint64_t *keys, const uint32_t *widths,
               int64_t n, tusk_frame **out, int (*cancelled)(void *), void *argument,
               char *error) {
    return tusk::acquire(*frames, worker, {keys, widths, n}, out, {cancelled, argument}, error);
}

void ks_release(tusk_frames *frames, int32_t worker, tusk_frame *const *held, int64_t n,
                int changed) {
    for (int64_t i = 0; i < n; i++) {
        if (i + tusk::AHEAD < n)
            __builtin_prefetch(held[i + tusk::AHEAD], 1);
        auto *frame = tusk::frame_of(held[i]);
        if (changed)
            frame->changed.store(true, std::memory_order_release);
        frame->pins.fetch_sub(1, std::memory_order_release);
    }
    tusk::Worker &by = frames->workers[static_cast<std::size_t>(worker)];
    if (!n || by.held.fetch_sub(n) != n)
        return;
    if (by.expects.load(std::memory_order_relaxed)) {
        std::scoped_lock lock(by.lock);
        by.bytes -= by.held_bytes;
    }
    by.held_bytes = 0;
    frames->gate.leave();
}

void ks_expect(tusk_frames *frames, int32_t worker, const uint64_t *keys, int64_t n) {
    tusk::Worker &by = frames->workers[static_cast<std::size_t>(worker)];
    for (tusk::Frame *frame : tusk::taken_by(by))
        tusk::unpin(frame);
    if (!n)
        return;
    std::scoped_lock lock(by.lock);
    by.expected = keys;
    by.n_expected = static_cast<std::size_t>(n);
    by.bytes = by.held_bytes;
    by.expects = true;
}
