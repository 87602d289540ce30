// A call that acquires frames: announce, make room, insert, read, wait. The caller's out records
// the progress of each key. A pointer's low bits are the state of this call's frame; nullptr means
// none. Between insert and the end of read, a call waits for no other call. So a call that waits
// for a READING frame waits for the disk only. If a call fails, one that waits for its frame takes
// the frame over at once.
#pragma once

#include <algorithm>
#include <cstdio>

#include "deliveries.hpp"
#include "frames.hpp"

namespace tusk {

enum Has : std::uintptr_t {
    HELD = 0,   // pinned, and ready
    FRESH = 1,  // a block, not in the table
    OURS = 2,   // READING, by us
    THEIRS = 3, // pinned, and READING by another
    MASK = 7
};

inline Frame *frame_of(tusk_frame *seen) {
    return reinterpret_cast<Frame *>(reinterpret_cast<std::uintptr_t>(seen) & ~MASK);
}

inline Has has(tusk_frame *seen) {
    return static_cast<Has>(reinterpret_cast<std::uintptr_t>(seen) & MASK);
}

inline tusk_frame *mark(Frame *frame, Has has) {
    return reinterpret_cast<tusk_frame *>(reinterpret_cast<std::uintptr_t>(frame) | has);
}

constexpr int64_t AHEAD = 8; // keys that are being prefetched
constexpr int64_t SLICE = 512;
constexpr std::size_t SLICE_BYTES = 256 << 10;
constexpr std::uint32_t WIDEST = (1 << 24) - 1;

// The keys that a call requests, ascending, and the number of weights of each.
struct Wanted {
    const std::uint64_t *keys;
    const std::uint32_t *widths;
    int64_t n;
};

class Call {
public:
    Call(tusk_frames &frames, std::size_t worker, const Wanted &wanted, tusk_frame **out,
         Cancel cancelled, char *error)
        : frames_(frames), worker_(worker), keys_(wanted.keys), widths_(wanted.widths),
          n_(wanted.n), out_(out), cancelled_(cancelled), error_(error) {
        std::fill_n(out_, n_, nullptr);
    }
    ~Call() { count(frames_, tally_); }
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    // Called inside the gate; the caller must leave the gate after any code but TUSK_ACQUIRED.
    int run(bool *inside) {
        int code = take_deliveries();
        if (!code)
            code = gather();
        if (code == NO_ROOM)
            code = gather_alone(inside);
        if (!code)
            code = read();
        if (!code && theirs_)
            code = wait();
        if (code)
            undo();
        tally_.wanted = tally_.hits + tally_.pushed + tally_.requests;
        return code;
    }

private:
    // Takes the delivered frames of these keys with their pins, and releases the rest.
    int take_deliveries() {
        const std::vector<Frame *> found = taken_by(frames_.workers[worker_]);
        int64_t i = 0;
        int code = TUSK_ACQUIRED;
        for (Frame *frame : found) {
            i = std::lower_bound(keys_ + i, keys_ + n_, frame->key) - keys_;
            if (i == n_ || keys_[i] != frame->key) {
                unpin(frame);
                continue;
            }
            if (frame->seen.width != widths_[i])
                code = wrong_width(*frame, widths_[i]);
            out_[i] = mark(frame, HELD);
            tally_.pushed++;
        }
        return code;
    }

    // Makes sure that each key has a frame in the table.
    int gather() {
        int code = announce();
        if (!code && absent_)
            code = make_room();
        return code || !fresh_ ? code : insert();
    }

    // The same if held frames leave no free run long enough (frames.hpp).
    int gather_alone(bool *inside) {
        undo();
        *inside = frames_.gate.stay_alone(cancelled_);
        if (!*inside)
            return TUSK_ACQUIRE_CANCELLED;
        drop_deliveries(frames_); // no other call reads now, so none is added
        int code = evict_all(frames_, tally_, error_);
        if (!code)
            code = gather();
        frames_.gate.open();
        if (code == NO_ROOM)
            return failed("the frames of a chunk do not fit into empty memory");
        return code;
    }

    int announce() {
        ShardLock lock(frames_.table);
        for (int64_t i = 0; i < std::min(n_, AHEAD); i++)
            frames_.table.expect_bucket(keys_[i]);
        for (int64_t i = 0; i < n_; i++) {
            if (out_[i])
                continue; // delivered
            if (i + 2 * AHEAD < n_)
                frames_.table.expect_bucket(keys_[i + 2 * AHEAD]);
            if (i + AHEAD < n_)
                frames_.table.expect_frame(keys_[i + AHEAD]);
            Place place(keys_[i]);
            if (Frame *frame = lock.of(place).find(keys_[i], place)) {
                if (int code = pin(frame, i))
                    return code;
            } else {
                absent_++;
                absent_bytes_ += units_of(widths_[i], frames_.weight_size) * UNIT;
            }
        }
        return TUSK_ACQUIRED;
    }

    // Pins a frame in the table, whose shard is locked.
    int pin(Frame *frame, int64_t i) {
        if (frame->seen.width != widths_[i])
            return wrong_width(*frame, widths_[i]);
        frame->pins.fetch_add(1, std::memory_order_acq_rel);
        frame->wanted = true;
        if (frame->state == State::ABANDONED) {
            frame->state = State::READING;
            out_[i] = mark(frame, OURS);
            ours_++;
        } else if (frame->state == State::READING) {
            out_[i] = mark(frame, THEIRS);
            theirs_++;
            tally_.hits++;
        } else {
            out_[i] = mark(frame, HELD);
            tally_.hits++;
        }
        return TUSK_ACQUIRED;
    }

    int make_room() {
        for (int64_t i = 0; i < n_; i++) {
            if (out_[i])
                continue;
            std::size_t units = units_of(widths_[i], frames_.weight_size);
            void *block = nullptr;
            if (int code = take_room(frames_, units, absent_bytes_, &block, tally_, error_))
                return code;
            absent_bytes_ -= units * UNIT;
            out_[i] = mark(new_frame(block, i), FRESH);
            fresh_++;
            if (fresh_ % SLICE == 0 && cancelled_())
                return TUSK_ACQUIRE_CANCELLED;
        }
        return TUSK_ACQUIRED;
    }

    Frame *new_frame(void *block, int64_t i) {
        std::size_t bytes = (widths_[i] * frames_.weight_size + 7) / 8 * 8;
        auto *frame = new (static_cast<char *>(block) + bytes) Frame{};
        frame->seen = {block, 0, widths_[i]};
        frame->key = keys_[i];
        frame->pins.store(1, std::memory_order_relaxed);
        frame->state = State::READING;
        frame->wanted = true;
        return frame;
    }

    int insert() {
        ShardLock lock(frames_.table);
        for (int64_t i = 0; i < n_; i++) {
            if (has(out_[i]) != FRESH)
                continue;
            Place place(keys_[i]);
            Shard &shard = lock.of(place);
            Frame *fresh = frame_of(out_[i]);
            if (Frame *frame = shard.find(keys_[i], place)) { // another was faster
                give_back(frames_, fresh);
                out_[i] = nullptr;
                if (int code = pin(frame, i))
                    return code;
            } else {
                fresh->seen.stamp = frames_.keep_stamps ? shard.stamps.get(keys_[i]) : 0;
                shard.insert(fresh);
                out_[i] = mark(fresh, OURS);
                ours_++;
            }
        }
        return TUSK_ACQUIRED;
    }

    // Reads our frames slice by slice; each frame is there for all workers as soon as it is read.
    int read() {
        for (int64_t i = 0; i < n_ && ours_;) {
            Slice slice;
            for (; i < n_ && slice.n < SLICE && slice.bytes < SLICE_BYTES; i++)
                if (has(out_[i]) == OURS)
                    slice.add(keys_[i], i, frame_of(out_[i]), frames_.weight_size);
            if (int code = read(slice))
                return code;
        }
        return TUSK_ACQUIRED;
    }

    struct Slice {
        void add(std::uint64_t key, int64_t place, Frame *frame, std::size_t weight_size) {
            keys[n] = key;
            places[n] = place;
            frames[n++] = &frame->seen;
            bytes += frame->seen.width * weight_size;
        }
        int64_t n = 0;
        std::size_t bytes = 0;
        std::uint64_t keys[SLICE];
        int64_t places[SLICE];
        tusk_frame *frames[SLICE];
        std::uint8_t found[SLICE];
    };

    int read(Slice &slice) {
        if (!slice.n)
            return TUSK_ACQUIRED;
        if (cancelled_())
            return TUSK_ACQUIRE_CANCELLED;
        auto work = [&] {
            return frames_.weight_size == 4 ? read_from_store<float>(slice)
                                            : read_from_store<double>(slice);
        };
        int code = guarded(work, error_);
        if (!code)
            publish(slice);
        return code;
    }

    template <class Weight> int read_from_store(Slice &slice) {
        Stopwatch watch(tally_.reading);
        ks_store *store = frames_.store;
        if (!store)
            return failed("the store is closed");
        Tally tally(*store);
        Targets<Weight> targets{nullptr, nullptr, slice.frames};
        int code = read_many(slice.keys, slice.n, targets, slice.found, tally, error_);
        tally_.requests += tally.requests;
        tally_.found += tally.found;
        tally_.bytes_read += tally.bytes_read;
        return code;
    }

    void publish(const Slice &slice) {
        ShardLock lock(frames_.table);
        Shard *before = nullptr;
        for (int64_t k = 0; k < slice.n; k++) {
            Frame *frame = frame_of(slice.frames[k]);
            Shard &shard = lock.of(Place(frame->key));
            frame->state = State::READY;
            frame->stored = slice.found[k];
            out_[slice.places[k]] = mark(frame, HELD);
            if (frames_.pushes)
                deliver(frames_, worker_, frame);
            if (shard.waiting && &shard != before)
                shard.published.notify_all(); // they cannot look before the lock is free
            before = &shard;
        }
        ours_ -= slice.n;
    }

    // Waits for frames that others read.
    int wait() {
        Stopwatch watch(tally_.waiting);
        for (int64_t i = 0; i < n_; i++) {
            if (has(out_[i]) != THEIRS)
                continue;
            if (int code = wait_for_frame(i))
                return code;
            if (has(out_[i]) != OURS)
                continue;
            Slice slice;
            slice.add(keys_[i], i, frame_of(out_[i]), frames_.weight_size);
            if (int code = read(slice))
                return code;
        }
        return TUSK_ACQUIRED;
    }

    int wait_for_frame(int64_t i) {
        Frame *frame = frame_of(out_[i]);
        ShardLock held(frames_.table);
        Shard &shard = held.of(Place(keys_[i]));
        shard.waiting++;
        bool ended = wait_for(held.lock(), shard.published, cancelled_,
                              [&] { return frame->state != State::READING; });
        shard.waiting--;
        if (!ended)
            return TUSK_ACQUIRE_CANCELLED;
        bool ready = frame->state == State::READY;
        out_[i] = mark(frame, ready ? HELD : OURS);
        theirs_--;
        if (!ready) { // its reader failed
            frame->state = State::READING;
            tally_.hits--;
            ours_++;
        }
        return TUSK_ACQUIRED;
    }

    // Releases everything.
    void undo() {
        ShardLock lock(frames_.table);
        for (int64_t i = 0; i < n_; i++) {
            Frame *frame = frame_of(out_[i]);
            Has had = has(out_[i]);
            out_[i] = nullptr;
            if (!frame)
                continue;
            if (had == FRESH) {
                give_back(frames_, frame);
                continue;
            }
            Shard &shard = lock.of(Place(keys_[i]));
            if (had == OURS) {
                frame->state = State::ABANDONED;
                shard.published.notify_all();
            }
            if (frame->pins.fetch_sub(1, std::memory_order_acq_rel) == 1 &&
                frame->state == State::ABANDONED) {
                shard.remove(frame);
                give_back(frames_, frame);
            }
        }
        tally_.hits = tally_.pushed = 0;
        absent_ = fresh_ = ours_ = theirs_ = 0;
        absent_bytes_ = 0;
    }

    int failed(const char *sentence) {
        std::snprintf(error_, TUSK_STORE_ERROR, "%s", sentence);
        return TUSK_STORE_FAILED;
    }

    int wrong_width(const Frame &frame, std::uint32_t asked) {
        std::snprintf(error_, TUSK_STORE_ERROR,
                      "key %llu was asked for with %u weights, and has %u in memory",
                      static_cast<unsigned long long>(frame.key), asked, frame.seen.width);
        return TUSK_STORE_FAILED;
    }

    tusk_frames &frames_;
    std::size_t worker_;
    const std::uint64_t *keys_;
    const std::uint32_t *widths_;
    int64_t n_;
    tusk_frame **out_;
    Cancel cancelled_;
    char *error_;
    FrameTally tally_;
    int64_t absent_ = 0, fresh_ = 0, ours_ = 0, theirs_ = 0;
    std::size_t absent_bytes_ = 0;
};

} // namespace tusk
