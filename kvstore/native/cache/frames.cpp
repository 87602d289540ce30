// Opens and closes the payload cache, and counts its operations.
#include "frames.hpp"

#include "../api.h"

namespace tusk {

void count(tusk_frames &frames, const FrameTally &tally) {
    std::scoped_lock held(frames.counting);
    FrameTally &all = frames.counted;
    all.wanted += tally.wanted;
    all.hits += tally.hits;
    all.pushed += tally.pushed;
    all.requests += tally.requests;
    all.found += tally.found;
    all.evicted += tally.evicted;
    all.written += tally.written;
    all.bytes_read += tally.bytes_read;
    all.bytes_written += tally.bytes_written;
    all.reading += tally.reading;
    all.writing += tally.writing;
    all.waiting += tally.waiting;
}

} // namespace tusk

int ks_frames_open(ks_store *store, int64_t memory, const ks_sharing *sharing, int32_t keep_stamps,
                   tusk_frames **frames, char *error) {
    return tusk::guarded(
        [&] {
            *frames = new tusk_frames(*store, static_cast<std::size_t>(memory), *sharing,
                                      keep_stamps != 0);
            return KS_OK;
        },
        error);
}

int64_t ks_frames_share(int64_t memory, int32_t workers) {
    auto share =
        tusk::share_of(static_cast<std::size_t>(memory), static_cast<std::size_t>(workers));
    return static_cast<int64_t>(share);
}

int64_t ks_frame_bytes(int64_t width, int32_t weight_size) {
    auto weights = static_cast<std::size_t>(width), size = static_cast<std::size_t>(weight_size);
    return static_cast<int64_t>(tusk::units_of(weights, size) * tusk::UNIT);
}

void ks_frames_close(tusk_frames *frames) {
    delete frames;
}

int ks_frames_flush(tusk_frames *frames, char *error) {
    tusk::FrameTally tally;
    int code = tusk::flush(*frames, tally, error);
    tusk::count(*frames, tally);
    return code;
}

int ks_frames_pause(tusk_frames *frames, char *error) {
    int others = frames->gate.close_if_empty();
    if (!others)
        return KS_OK;
    std::snprintf(error, KS_ERROR, "%d workers hold frames: they must release them before",
                  others);
    return KS_FAILED;
}

void ks_frames_resume(tusk_frames *frames, ks_store *store) {
    frames->store = store;
    frames->gate.open();
}

void ks_frames_count(tusk_frames *frames, ks_frame_counters *counters) {
    std::scoped_lock held(frames->counting);
    const tusk::FrameTally &all = frames->counted;
    *counters = {all.wanted,        all.hits,    all.pushed,  all.requests,
                 all.found,         all.evicted, all.written, all.bytes_read,
                 all.bytes_written, all.reading, all.writing, all.waiting};
}

void ks_frames_access(tusk_frames *frames, tusk_frame_access *out) {
    *out = {frames,     static_cast<int32_t>(frames->weight_size), ks_acquire,
            ks_release, frames->pushes ? ks_expect : nullptr,      nullptr};
}
