// Workers that visit chunks: each takes the next chunk, acquires its payloads, works on them and
// releases them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>

#include "../../../kvstore/native/frames.h"
#include "../epochs/step_weights.hpp"
#include "api.h"
#include "chunks.hpp"

namespace tusk {

// Penalties for a model that is mostly not in memory, so that no step may touch all weights.
//
// Between gradient steps weights follow dw/dt = -l2 w - l1 sign(w), where time t is the sum of the
// steps' lengths; after a time D, |w| has become
//     max(0, exp(-l2 D) |w| - l1 (1 - exp(-l2 D)) / l2),
// Two successive intervals have the same effect as one of their total length, so a payload's
// penalty may wait until the payload is needed (lazy updates: Langford, Li and Zhang, Sparse
// online learning via truncated gradient, 2009; Tsuruoka, Tsujii and Ananiadou, SGD training for
// L1-regularized log-linear models with cumulative penalty, 2009). Within a chunk the l2 part
// cannot wait. So we store u, where w = s u with a common s = exp(-l2 (t - base)). To keep s from
// underflowing, base advances by fixed spans of time, and payloads are rescaled when they are
// acquired. A frame's stamp is the time t up to which it is penalised, and determines its base.
//
// A step of length eta along the gradient g under l2 alone, exact while g is constant:
//     w <- exp(-a) w - eta phi(a) g,   a = eta l2,   phi(a) = (1 - exp(-a)) / a,
// Its fixed point is g = -l2 w for any eta.

// phi(a); exp(-a) is 1 - a phi(a).
inline double phi(double a) {
    if (a > 0.01)
        return -std::expm1(-a) / a;
    return 1 - a / 2 * (1 - a / 3 * (1 - a / 4 * (1 - a / 5 * (1 - a / 6))));
}

// Moves w towards 0 by `by`, without branches, because the signs of weights are unpredictable.
inline double closer(double w, double by) {
    return std::max(w - by, 0.0) + std::min(w + by, 0.0);
}

class Clock {
public:
    // Limits of l2 t in one span and in one step, so that float does not overflow.
    static constexpr double SPAN = 32, MOST_STEP = 8;

    Clock(double l1, double l2, double time) : l1(l1), l2(l2), time_(time) { begin_span(); }

    const double l1, l2;

    double time() const { return time_.load(std::memory_order_relaxed); }
    double add(double steps) { return time_.fetch_add(steps, std::memory_order_relaxed) + steps; }

    // Moves the base to the span of the current time, for all payloads acquired from now on. No
    // worker may hold payloads.
    void begin_span() {
        span_ = span_of(time());
        base_ = base_of(span_);
    }
    bool span_is_over() const { return l2 > 0 && time() >= base_of(span_ + 1); }
    double scale_at(double t) const { return l2 > 0 ? std::exp(-l2 * (t - base_)) : 1; }
    double longest_step() const { return l2 > 0 ? MOST_STEP / l2 : HUGE_VAL; }

    // Brings a frame of W up to date. Several workers may do this at once.
    template <class W> void settle(tusk_frame *frame) {
        double now = stamp_of_now(), stamp = read_stamp(frame);
        if (fresh(stamp, now))
            return;
        std::lock_guard guard(lock_of(frame));
        stamp = read_stamp(frame);
        if (fresh(stamp, now))
            return;
        double factor = 1, by = threshold(base_, now), before = base_of(span_of(stamp));
        if (before < base_) {
            factor = std::exp(-l2 * (base_ - before));
            by += l1 > 0 ? -l1 * std::expm1(-l2 * (base_ - stamp)) / l2 : 0;
        } else {
            by -= threshold(base_, stamp);
        }
        W *u = (W *)frame->weights;
        for (uint32_t k = 0; k < frame->width; k++)
            write_shared(u[k], (W)closer(read_shared(u[k]) * factor, by));
        std::atomic_ref<double>(frame->stamp).store(now, std::memory_order_release);
    }

private:
    static double read_stamp(tusk_frame *frame) {
        return std::atomic_ref<double>(frame->stamp).load(std::memory_order_acquire);
    }

    // The span with base_of(span) <= t < base_of(span + 1), in spite of rounding.
    double span_of(double t) const {
        if (l2 <= 0)
            return 0;
        double span = std::floor(t * l2 / SPAN);
        return t < base_of(span) ? span - 1 : t >= base_of(span + 1) ? span + 1 : span;
    }
    double base_of(double span) const { return l2 > 0 ? span * SPAN / l2 : 0; }

    // The stamp never lies in a later span than base, so that it determines the payload's base.
    double stamp_of_now() const {
        return l2 > 0 ? std::min(time(), std::nextafter(base_of(span_ + 1), 0.0)) : time();
    }

    bool fresh(double stamp, double now) const {
        if (l1 > 0)
            return stamp >= now;
        return l2 <= 0 || span_of(stamp) == span_;
    }

    // The amount by which l1 lowers |u| from time `from` to time t, both in the span of `from`.
    double threshold(double from, double t) const {
        return l1 <= 0 ? 0 : l2 > 0 ? l1 * std::expm1(l2 * (t - from)) / l2 : l1 * (t - from);
    }

    std::mutex &lock_of(const tusk_frame *frame) {
        return locks_[((uintptr_t)frame >> 4) * 0x9e3779b97f4a7c15u >> 58];
    }

    std::atomic<double> time_;
    double span_ = 0, base_ = 0;
    std::mutex locks_[64];
};

// A worker's view of the clock. A worker adds its steps to the shared time only every few rows,
// because workers would otherwise contend for it.
class OwnClock {
public:
    explicit OwnClock(Clock &clock) : clock_(clock) { merge(); }
    ~OwnClock() { merge(); }

    double scale() const { return scale_; }

    // Makes a step of length eta for a batch of rows. Returns the factor of the gradient that is
    // subtracted from u.
    double step(double eta, int64_t rows) {
        double a = eta * clock_.l2, part = phi(a);
        pending_ += eta;
        scale_ *= 1 - a * part;
        double by = eta * part / scale_;
        rows_ += rows;
        if (rows_ >= 32 || pending_ * clock_.l2 > 0.01)
            merge();
        return by;
    }

private:
    void merge() {
        scale_ = clock_.scale_at(clock_.add(pending_));
        pending_ = 0;
        rows_ = 0;
    }

    Clock &clock_;
    double scale_ = 1, pending_ = 0;
    int64_t rows_ = 0;
};

// Weights accessed through a chunk's table of pages.
template <class W> struct Paged {
    W *const *page;
    int shift;
    uint32_t mask;

    W &at(int32_t place) const { return page[(uint32_t)place >> shift][(uint32_t)place & mask]; }
    std::remove_const_t<W> read(int32_t place) const { return read_shared(at(place)); }
    void write(int32_t place, W w) const { write_shared(at(place), w); }
};

// The payloads that a worker holds, and the table of their pages. The memory of both is reused.
template <class W> struct Held {
    std::vector<tusk_frame *> frames;
    std::vector<W *> pages;

    // The frames are those of the chunk's keys from the first-th on. Its first weight has index 0.
    Paged<W> weights(const StoredChunk &chunk, size_t first = 0) {
        pages.clear();
        for (size_t k = 0; k < frames.size(); k++) {
            W *begin = (W *)frames[k]->weights;
            for (int64_t page = 0, n = chunk.pages_of(chunk.widths[first + k]); page < n; page++)
                pages.push_back(begin + (page << chunk.shift));
        }
        return {pages.data(), chunk.shift, (uint32_t)(((uint64_t)1 << chunk.shift) - 1)};
    }
};

// State shared by all workers of a job.
class Visits {
public:
    explicit Visits(tk_stored *job) : job_(job) {
        job->loss = job->sum_squares = job->sum_absolute = 0;
        job->rows = job->n_keys = job->nonzeros = 0;
        job->acquire_ns = job->train_ns = job->release_ns = 0;
        job->failed_chunk = -1;
        job->error[0] = 0;
    }

    bool stopped() {
        if (cancelled(job_->pass->cancel_mark))
            fail(TK_CANCELLED, -1, "");
        return code_.load(std::memory_order_relaxed) != TK_OK;
    }
    int code() const { return code_; }

    // Records a failure; only the first one is reported.
    void fail(int code, int64_t chunk, const char *error) {
        std::lock_guard guard(lock_);
        if (code_ != TK_OK)
            return;
        job_->failed_chunk = chunk;
        std::snprintf(job_->error, sizeof job_->error, "%s", error);
        code_ = code;
    }

    // Acquires the payloads of n keys into `held`, calls body() and releases them in any case.
    // body() returns whether it changed them. Returns false on failure.
    template <class W, class Body>
    bool visit(int32_t worker, int64_t number, const uint64_t *keys, const uint32_t *widths,
               size_t n, Held<W> &held, Body &&body) {
        const tusk_frame_access *access = job_->access;
        held.frames.resize(n);
        int64_t begin = now();
        char error[TUSK_STORE_ERROR] = "";
        int code = n == 0 ? (int)TUSK_ACQUIRED
                          : access->acquire(access->frames, worker, keys, widths, (int64_t)n,
                                            held.frames.data(), is_stopped, this, error);
        if (code != TUSK_ACQUIRED) {
            fail(code_of_store(code), number, error);
            return false;
        }
        int64_t acquired = now();
        Release release{access, worker, held.frames, true};
        for (size_t k = 0; k < n; k++)
            if (held.frames[k]->width != widths[k]) {
                std::snprintf(error, sizeof error,
                              "the payload of key %llu has %u weights, not %u",
                              (unsigned long long)keys[k], held.frames[k]->width, widths[k]);
                fail(TK_STORE_CORRUPT, number, error);
                return false;
            }
        release.changed = body();
        int64_t done = now();
        release.now();
        int64_t released = now();
        std::lock_guard guard(lock_);
        job_->n_keys += (int64_t)n;
        job_->acquire_ns += acquired - begin;
        job_->train_ns += done - acquired;
        job_->release_ns += released - done;
        return true;
    }

    // Brings the payloads that a worker holds up to date.
    template <class W> void settle(Clock &clock, int32_t worker, const Held<W> &held) const {
        const tusk_frame_access *access = job_->access;
        for (size_t k = 0; k < held.frames.size(); k++) {
            if (!access->parts) {
                clock.settle<W>(held.frames[k]);
                continue;
            }
            int64_t n = 0;
            tusk_frame *part = access->parts(access->frames, worker, (int64_t)k, &n);
            for (int64_t i = 0; i < n; i++)
                clock.settle<W>(part + i);
        }
    }

    // Whether workers deliver payloads that they read to those that expect them.
    bool pushes() const { return job_->access->expect != nullptr; }
    void expect(int32_t worker, const StoredChunk *chunk) const {
        if (pushes())
            job_->access->expect(job_->access->frames, worker,
                                 chunk ? chunk->keys.data() : nullptr,
                                 chunk ? (int64_t)chunk->keys.size() : 0);
    }

    // Adds a chunk's loss and rows to the job's sums.
    void add(double loss, int64_t rows) {
        std::lock_guard guard(lock_);
        job_->loss += loss;
        job_->rows += rows;
    }
    void add_weights(double squares, double absolute, int64_t nonzeros) {
        std::lock_guard guard(lock_);
        job_->sum_squares += squares;
        job_->sum_absolute += absolute;
        job_->nonzeros += nonzeros;
    }

private:
    struct Release {
        const tusk_frame_access *access;
        int32_t worker;
        const std::vector<tusk_frame *> &held;
        bool changed, done = false;

        void now() {
            if (!done && !held.empty())
                access->release(access->frames, worker, held.data(), (int64_t)held.size(),
                                changed);
            done = true;
        }
        ~Release() { now(); }
    };

    static int is_stopped(void *visits) { return ((Visits *)visits)->stopped(); }

    static int code_of_store(int code) {
        switch (code) {
        case TUSK_STORE_CORRUPT:
            return TK_STORE_CORRUPT;
        case TUSK_STORE_NO_MEMORY:
            return TK_NO_MEMORY;
        case TUSK_CHUNK_TOO_LARGE:
            return TK_CHUNK_TOO_LARGE;
        case TUSK_ACQUIRE_CANCELLED:
            return TK_CANCELLED;
        default:
            return TK_STORE_FAILED;
        }
    }

    static int64_t now() {
        using namespace std::chrono;
        return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
    }

    tk_stored *job_;
    std::mutex lock_;
    std::atomic<int> code_{TK_OK};
};

// A chunk to visit.
struct Stop {
    int64_t number;
    int64_t row;         // rows of the epoch before this chunk
    int64_t batches = 0; // finished batches of this chunk
};

// A queue of chunks. Each chunk is drawn once.
class Queue {
public:
    explicit Queue(std::vector<Stop> stops) : stops_(std::move(stops)) {}

    Stop *draw() {
        size_t i = next_.fetch_add(1, std::memory_order_relaxed);
        return i < stops_.size() ? &stops_[i] : nullptr;
    }

private:
    std::vector<Stop> stops_;
    std::atomic<size_t> next_{0};
};

// Calls body with a null pointer that has the type of the store's weights.
template <class Body> auto with_weights(const tk_stored *job, Body &&body) {
    if (job->access->weight_size == sizeof(float))
        return body((float *)nullptr);
    return body((double *)nullptr);
}

} // namespace tusk
