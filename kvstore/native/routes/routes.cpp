// A pass over the chunks: acquire reads a chunk's region, release sends its weights on.
//
// Tasks of the thread run in order. Acquiring chunk j asks for its moves and for the region of
// chunk j + 1, all but what j itself will put there. Releasing j copies the weights in the order
// of their next chunks, puts those of j + 1 into memory, and has all others written. So what is
// read was written before, and the weights that every chunk needs never leave memory.
#include "api.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "../leveldb/store.hpp"
#include "routes.hpp"

namespace {

using tusk::read_at;
using tusk::write_at;

struct Free {
    void operator()(void *memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

Memory take(std::size_t bytes) {
    constexpr std::size_t LINE = 64;
    auto *memory = std::aligned_alloc(LINE, std::max(LINE, (bytes + LINE - 1) / LINE * LINE));
    if (!memory)
        throw std::bad_alloc();
    return Memory(static_cast<char *>(memory));
}

class Watch {
public:
    explicit Watch(std::atomic<int64_t> &total) : total_(total), begin_(now()) {}
    ~Watch() { total_ += now() - begin_; }
    Watch(const Watch &) = delete;
    Watch &operator=(const Watch &) = delete;

private:
    static int64_t now() {
        using namespace std::chrono;
        return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
    }
    std::atomic<int64_t> &total_;
    int64_t begin_;
};

// What a worker holds between passes.
struct Resting {
    std::vector<tusk_frame> frames;
    std::vector<uint64_t> keys;
    Memory memory;
};

} // namespace

struct ks_routes {
    explicit ks_routes(const ks_route_plan &given)
        : plan(given), stamps(static_cast<std::size_t>(given.chunks)),
          released(static_cast<std::size_t>(given.chunks)) {
        int64_t region = 0, weights = 0;
        for (int32_t j = 0; j < plan.chunks; j++) {
            region = std::max(region, plan.region[j + 1] - plan.region[j]);
            weights = std::max(weights, plan.first[j + 1] - plan.first[j]);
        }
        here = take(static_cast<std::size_t>(region));
        next = take(static_cast<std::size_t>(region));
        out = take(static_cast<std::size_t>(weights * plan.weight_size));
        moves.reset(new int32_t[static_cast<std::size_t>(weights)]);
    }

    std::size_t cell(int64_t j, int64_t i) const {
        return static_cast<std::size_t>(j * plan.chunks + i);
    }
    std::size_t bytes_of(int64_t j, int64_t i) const {
        return std::size_t(plan.counts[cell(j, i)]) * static_cast<std::size_t>(plan.weight_size);
    }
    int64_t offset_of(int64_t j, int64_t i) const { // in the region
        return int64_t(plan.starts[cell(j, i)]) * plan.weight_size;
    }
    int32_t after(int32_t j) const { return (j + 1) % plan.chunks; }

    bool read_region(int32_t j, int32_t without, char *error);
    template <class W> void gather(int32_t j);
    bool send(int32_t j, char *error);
    void count_wanted(const uint64_t *keys, int64_t n);

    ks_route_plan plan;
    std::vector<double> stamps;         // of the weights that each chunk released
    std::vector<std::uint8_t> released; // whether it did
    Memory here, next, out;             // the chunk in hand, the one after it, what goes away
    std::unique_ptr<int32_t[]> moves;
    std::vector<tusk_frame> frames; // of the chunk in hand
    int32_t asked = -1;             // the chunk whose region is or will be in `next`
    int32_t source = -1;            // the chunk of which `next` has what the file lacks
    int32_t held = -1;
    std::atomic<int32_t> ready{-1}; // the chunk whose region is in `next`, complete
    std::atomic<bool> has_moves{false}, sent{true};
    bool resting = false;
    std::map<int32_t, Resting> rest; // by worker
    std::mutex resting_lock;

    std::mutex counting;
    ks_route_counters counted{};
    std::atomic<int64_t> reading{0}, writing{0}, waiting{0};
    tusk::IoThread thread; // last: it ends before what it uses
};

// Reads a region into `next`, all but one bucket (-1: all of it).
bool ks_routes::read_region(int32_t j, int32_t without, char *error) {
    Watch watch(reading);
    int64_t begin = plan.region[j], end = plan.region[j + 1], bytes = 0;
    int64_t hole = without < 0 ? end - begin : offset_of(j, without);
    int64_t behind = without < 0 ? hole : hole + static_cast<int64_t>(bytes_of(j, without));
    for (auto [from, to] : {std::pair(int64_t(0), hole), std::pair(behind, end - begin)}) {
        if (from >= to)
            continue;
        if (!read_at(plan.weights, next.get() + from, static_cast<std::size_t>(to - from),
                     begin + from, error))
            return false;
        bytes += to - from;
    }
    std::scoped_lock guard(counting);
    counted.bytes_read += bytes;
    return true;
}

// Copies the weights of the chunk in hand in the order of the chunks to which they go.
template <class W> void ks_routes::gather(int32_t j) {
    auto *from = reinterpret_cast<const W *>(here.get());
    auto *to = reinterpret_cast<W *>(out.get());
    int64_t n = plan.first[j + 1] - plan.first[j];
    for (int64_t k = 0; k < n; k++)
        to[k] = from[moves[static_cast<std::size_t>(k)]];
}

// Sends what chunk j released: into memory for the chunk after it, into the file for the others.
bool ks_routes::send(int32_t j, char *error) {
    int32_t near = after(j);
    std::vector<std::size_t> at(static_cast<std::size_t>(plan.chunks) + 1);
    for (int32_t k = 0; k < plan.chunks; k++)
        at[static_cast<std::size_t>(k) + 1] = at[static_cast<std::size_t>(k)] + bytes_of(k, j);
    std::memcpy(next.get() + offset_of(near, j), out.get() + at[static_cast<std::size_t>(near)],
                bytes_of(near, j));
    ready = near;
    thread.tell();
    Watch watch(writing);
    int64_t written = 0, bytes = 0;
    for (int32_t k = 0; k < plan.chunks; k++) {
        std::size_t size = bytes_of(k, j);
        if (k == near || !size)
            continue;
        int64_t place = plan.region[k] + offset_of(k, j);
        if (!write_at(plan.weights, out.get() + at[static_cast<std::size_t>(k)], size, place,
                      error))
            return false;
        written++;
        bytes += static_cast<int64_t>(size);
    }
    std::scoped_lock guard(counting);
    counted.written += written;
    counted.bytes_written += bytes;
    return true;
}

// Of a chunk whose region is in memory.
void ks_routes::count_wanted(const uint64_t *keys, int64_t n) {
    std::scoped_lock guard(counting);
    for (int64_t k = 0; k < n; k++) {
        auto i = static_cast<int32_t>(keys[k] % static_cast<uint64_t>(plan.chunks));
        counted.wanted++;
        if (i == source) {
            counted.hits++;
        } else {
            counted.requests++;
            counted.found += released[static_cast<std::size_t>(i)];
        }
    }
}

namespace {

// What a call asks for.
struct Asked {
    const uint64_t *keys;
    const uint32_t *widths;
    int64_t n;
    tusk_frame **out;
};

// Waits for a chunk's region, which was asked for before if chunks come in order.
int bring(ks_routes &r, int32_t j, const tusk::Cancel &cancel, char *error) {
    if (r.asked != j) {
        r.ready = r.source = -1;
        r.asked = j;
        r.thread.add([&r, j](char *e) {
            bool done = r.read_region(j, -1, e);
            if (done)
                r.ready = j;
            return done;
        });
    }
    Watch watch(r.waiting);
    bool stop = false;
    if (r.thread.wait([&] { return r.ready == j; }, cancel, error, &stop))
        return TUSK_ACQUIRED;
    return stop ? TUSK_ACQUIRE_CANCELLED : TUSK_STORE_FAILED;
}

// The frames of a chunk whose region is in memory.
int hand_out(ks_routes &r, int32_t j, const Asked &asked, char *error) {
    auto chunks = static_cast<uint64_t>(r.plan.chunks);
    r.frames.resize(static_cast<std::size_t>(asked.n));
    for (int64_t k = 0; k < asked.n; k++) {
        auto i = static_cast<int32_t>(asked.keys[k] % chunks);
        if (asked.keys[k] / chunks != static_cast<uint64_t>(j) ||
            asked.widths[k] != r.plan.counts[r.cell(j, i)]) {
            std::snprintf(error, TUSK_STORE_ERROR, "key %llu is not one of chunk %d",
                          static_cast<unsigned long long>(asked.keys[k]), j);
            return TUSK_STORE_FAILED;
        }
        tusk_frame &frame = r.frames[static_cast<std::size_t>(k)];
        frame = {r.here.get() + r.offset_of(j, i), r.stamps[static_cast<std::size_t>(i)],
                 asked.widths[k]};
        asked.out[k] = &frame;
    }
    r.count_wanted(asked.keys, asked.n);
    return TUSK_ACQUIRED;
}

// Asks for where the weights of chunk j will go, and for the region of the chunk after it.
void read_ahead(ks_routes &r, int32_t j) {
    int32_t near = r.after(j);
    r.has_moves = false;
    r.ready = -1;
    r.asked = near;
    r.source = j;
    r.thread.add([&r, j, near](char *e) {
        {
            Watch watch(r.reading);
            std::size_t count = static_cast<std::size_t>(r.plan.first[j + 1] - r.plan.first[j]);
            if (!read_at(r.plan.moves, r.moves.get(), count * sizeof(int32_t),
                         r.plan.first[j] * int64_t(sizeof(int32_t)), e))
                return false;
        }
        r.has_moves = true;
        r.thread.tell();
        return r.read_region(near, j, e);
    });
}

// Of a call in a pass: keys are those of one chunk, all of them.
int acquire_chunk(ks_routes &r, const Asked &asked, const tusk::Cancel &cancel, char *error) {
    auto j = static_cast<int32_t>(asked.keys[0] / static_cast<uint64_t>(r.plan.chunks));
    if (r.held >= 0 || j >= r.plan.chunks) {
        std::snprintf(error, TUSK_STORE_ERROR, "chunk %d is asked for while %d is held", j,
                      r.held);
        return TUSK_STORE_FAILED;
    }
    if (int code = bring(r, j, cancel, error))
        return code;
    std::swap(r.here, r.next);
    if (int code = hand_out(r, j, asked, error))
        return code;
    r.held = j;
    read_ahead(r, j);
    return TUSK_ACQUIRED;
}

void release_chunk(ks_routes &r, tusk_frame *const *held, int64_t n) {
    int32_t j = r.held;
    char error[KS_ERROR];
    bool stop = false;
    {
        Watch watch(r.waiting);
        // A failure of the thread is told by the next call.
        if (!r.thread.wait([&] { return r.has_moves && r.sent; }, {}, error, &stop)) {
            r.held = -1;
            return;
        }
    }
    r.plan.weight_size == 4 ? r.gather<float>(j) : r.gather<double>(j);
    // Frames are of one time under l1, and of one span of time under l2 (clock.hpp).
    double stamp = 0;
    for (int64_t k = 0; k < n; k++)
        stamp = std::max(stamp, held[k]->stamp);
    r.stamps[static_cast<std::size_t>(j)] = stamp;
    r.sent = false;
    r.held = -1;
    r.thread.add([&r, j](char *e) {
        bool done = r.send(j, e);
        r.released[static_cast<std::size_t>(j)] = 1;
        r.sent = true;
        return done;
    });
}

int acquire_resting(ks_routes &r, int32_t worker, const Asked &asked, char *error) {
    auto [keys, widths, n, out] = asked;
    const ks_route_plan &plan = r.plan;
    Resting *mine = nullptr;
    {
        std::scoped_lock guard(r.resting_lock);
        mine = &r.rest[worker];
    }
    std::size_t size = 0, weight = static_cast<std::size_t>(plan.weight_size);
    for (int64_t k = 0; k < n; k++)
        size += widths[k] * weight;
    mine->memory = take(size);
    mine->keys.assign(keys, keys + n);
    mine->frames.resize(static_cast<std::size_t>(n));
    char *at = mine->memory.get();
    for (int64_t k = 0; k < n; k++) {
        auto j = static_cast<int64_t>(keys[k]) / plan.chunks;
        auto i = static_cast<int64_t>(keys[k]) % plan.chunks;
        if (!read_at(plan.weights, at, widths[k] * weight, plan.region[j] + r.offset_of(j, i),
                     error))
            return TUSK_STORE_FAILED;
        tusk_frame &frame = mine->frames[static_cast<std::size_t>(k)];
        frame = {at, r.stamps[static_cast<std::size_t>(i)], widths[k]};
        out[k] = &frame;
        at += widths[k] * weight;
    }
    std::scoped_lock guard(r.counting);
    r.counted.wanted += n;
    r.counted.requests += n;
    r.counted.found += n;
    r.counted.bytes_read += static_cast<int64_t>(size);
    return TUSK_ACQUIRED;
}

void release_resting(ks_routes &r, int32_t worker, int64_t n, int changed) {
    Resting *mine = nullptr;
    {
        std::scoped_lock guard(r.resting_lock);
        mine = &r.rest[worker];
    }
    char error[KS_ERROR] = "";
    int64_t bytes = 0;
    for (int64_t k = 0; changed && k < n; k++) {
        const tusk_frame &frame = mine->frames[static_cast<std::size_t>(k)];
        auto j = static_cast<int64_t>(mine->keys[static_cast<std::size_t>(k)]) / r.plan.chunks;
        auto i = static_cast<int64_t>(mine->keys[static_cast<std::size_t>(k)]) % r.plan.chunks;
        std::size_t size = std::size_t(frame.width) * static_cast<std::size_t>(r.plan.weight_size);
        if (!write_at(r.plan.weights, frame.weights, size, r.plan.region[j] + r.offset_of(j, i),
                      error)) {
            std::string text(error); // the next call tells
            r.thread.add([text](char *e) {
                std::snprintf(e, KS_ERROR, "%s", text.c_str());
                return false;
            });
            return;
        }
        bytes += static_cast<int64_t>(size);
    }
    mine->memory.reset();
    std::scoped_lock guard(r.counting);
    r.counted.written += changed ? n : 0;
    r.counted.bytes_written += bytes;
}

int acquire(tusk_frames *frames, int32_t worker, const uint64_t *keys, const uint32_t *widths,
            int64_t n, tusk_frame **out, int (*cancelled)(void *), void *argument, char *error) {
    auto &r = *reinterpret_cast<ks_routes *>(frames);
    return tusk::guarded(
        [&] {
            Asked asked{keys, widths, n, out};
            return r.resting ? acquire_resting(r, worker, asked, error)
                             : acquire_chunk(r, asked, {cancelled, argument}, error);
        },
        error);
}

void release(tusk_frames *frames, int32_t worker, tusk_frame *const *held, int64_t n,
             int changed) {
    auto &r = *reinterpret_cast<ks_routes *>(frames);
    r.resting ? release_resting(r, worker, n, changed) : release_chunk(r, held, n);
}

// Puts into the file what only memory has: the weights that go from the last chunk to the next.
bool settle_down(ks_routes &r, char *error) {
    if (!r.thread.idle(error))
        return false;
    if (r.asked < 0 || r.source < 0)
        return true;
    int32_t j = r.asked, i = r.source;
    if (!write_at(r.plan.weights, r.next.get() + r.offset_of(j, i), r.bytes_of(j, i),
                  r.plan.region[j] + r.offset_of(j, i), error))
        return false;
    std::scoped_lock guard(r.counting);
    r.counted.written += r.bytes_of(j, i) > 0;
    r.counted.bytes_written += static_cast<int64_t>(r.bytes_of(j, i));
    r.asked = r.source = -1;
    return true;
}

} // namespace

int ks_routes_open(const ks_route_plan *plan, ks_routes **out, char *error) {
    return tusk::guarded(
        [&] {
            *out = new ks_routes(*plan);
            return KS_OK;
        },
        error);
}

void ks_routes_close(ks_routes *routes) {
    delete routes;
}

void ks_routes_access(ks_routes *routes, tusk_frame_access *out) {
    *out = {reinterpret_cast<tusk_frames *>(routes), routes->plan.weight_size, acquire, release,
            nullptr};
}

void ks_routes_count(ks_routes *routes, ks_route_counters *counters) {
    std::scoped_lock guard(routes->counting);
    *counters = routes->counted;
    counters->reading = routes->reading;
    counters->writing = routes->writing;
    counters->waiting = routes->waiting;
}

int ks_routes_rest(ks_routes *routes, int rest, int fold, char *error) {
    if (rest && !settle_down(*routes, error))
        return KS_FAILED;
    if (fold)
        std::fill(routes->stamps.begin(), routes->stamps.end(), 0.0);
    if (!rest && !routes->thread.idle(error)) // a write between passes failed
        return KS_FAILED;
    routes->resting = rest != 0;
    routes->rest.clear();
    return KS_OK;
}
