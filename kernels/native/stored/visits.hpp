// Workers that visit chunks: each takes the next chunk, acquires its payloads, works on them and
// releases them.
#pragma once

#include <chrono>
#include <cstdio>

#include "chunks.hpp"
#include "clock.hpp"

namespace tusk {

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
