// A pass over the chunks: acquire reads a chunk's region, release sends its weights on. Tasks of
// the thread run in order. Acquiring chunk j requests its moves and the region of chunk j + 1,
// except what j itself will put there. Releasing j copies the weights in the order of their next
// chunks, puts those of j + 1 into memory, and has all others written. So everything read was
// written before, and the weights that every chunk needs never leave memory.
#include <cstdio>
#include <cstring>

#include "../leveldb/store.hpp"
#include "state.hpp"

using namespace tusk;

bool ks_routes::write_run(const char *data, std::size_t size, int64_t at, char *error) {
    if (!size)
        return true;
    Watch watch(writing);
    if (!write_at(plan.weights, data, size, at, error))
        return false;
    std::scoped_lock guard(counting);
    counted.written++;
    counted.bytes_written += static_cast<int64_t>(size);
    return true;
}

// Reads a region into `next` once its links are there, without one bucket (-1: all of it).
bool ks_routes::read_region(int32_t j, int32_t without, char *error) {
    if (!behind.flush(j, writer(error)))
        return false;
    Watch watch(reading);
    int64_t begin = plan.region[j], end = plan.region[j + 1], total = 0;
    int64_t hole = end - begin, behind = hole;
    if (without >= 0) {
        hole = static_cast<int64_t>(bytes(next_links.takes_at(without)));
        behind = hole + static_cast<int64_t>(bytes(next_links.takes(without)));
    }
    for (auto [from, to] : {std::pair(int64_t(0), hole), std::pair(behind, end - begin)}) {
        if (from >= to)
            continue;
        if (!read_at(plan.weights, next.get() + from, static_cast<std::size_t>(to - from),
                     begin + from, error))
            return false;
        total += to - from;
    }
    std::scoped_lock guard(counting);
    counted.bytes_read += total;
    return true;
}

// Copies the weights of the current chunk in the order of their destination chunks.
template <class W> void ks_routes::gather(int32_t j) {
    auto *from = reinterpret_cast<const W *>(here.get());
    auto *to = reinterpret_cast<W *>(out.get());
    int64_t n = plan.first[j + 1] - plan.first[j];
    for (int64_t k = 0; k < n; k++)
        to[k] = from[move_of(k)];
}

// The same for features with several weights.
void ks_routes::gather_several(int32_t j) {
    auto size = static_cast<std::size_t>(plan.weight_size);
    int64_t n = plan.first[j + 1] - plan.first[j];
    char *to = out.get();
    for (int64_t k = 0; k < n; k++, to += size)
        std::memcpy(to, here.get() + bytes(move_of(k)), size);
}

// Sends the weights that chunk j released: into memory for the chunk after it, towards the file
// for the others.
bool ks_routes::send(int32_t j, char *error) {
    int32_t near = after(j);
    std::size_t at = 0;
    for (int32_t k = 0; k < near; k++)
        at += bytes(sent_links.gives(k));
    std::memcpy(next.get() + bytes(sent_links.gives_at(near)), out.get() + at,
                bytes(sent_links.gives(near)));
    ready = near;
    thread.tell();
    auto write = writer(error);
    at = 0;
    for (int32_t k = 0; k < plan.chunks; k++) {
        std::size_t size = bytes(sent_links.gives(k)), from = at;
        at += size;
        if (k == near || !size)
            continue;
        int64_t place = plan.region[k] + static_cast<int64_t>(bytes(sent_links.gives_at(k)));
        if (!behind.put(k, out.get() + from, size, place, write))
            return false;
    }
    return true;
}

// Counts the buckets of the current chunk.
void ks_routes::count_wanted() {
    std::scoped_lock guard(counting);
    for (int32_t i = 0; i < plan.chunks; i++) {
        if (!links.takes(i))
            continue;
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

// Waits for a chunk's region, which has been requested before if chunks come in order.
int bring(ks_routes &r, int32_t j, const Cancel &cancel, char *error) {
    if (r.asked != j) {
        r.ready = r.source = -1;
        r.asked = j;
        r.thread.add([&r, j](char *e) {
            bool done = r.next_links.read(j, e) && r.read_region(j, -1, e);
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

// Sets the frame of the chunk whose region is in memory, and its parts.
void hand_out(ks_routes &r, int32_t j) {
    r.parts.clear();
    for (int32_t i = 0; i < r.plan.chunks; i++)
        if (uint32_t n = r.links.takes(i))
            r.parts.push_back({r.here.get() + r.bytes(r.links.takes_at(i)),
                               r.stamps[static_cast<std::size_t>(i)], n * r.several()});
    r.frame = {r.here.get(), 0, static_cast<uint32_t>(r.places(j)) * r.several()};
    r.count_wanted();
}

// Requests the destinations of chunk j's weights, and the region of the chunk after it.
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
        return r.next_links.read(near, e) && r.read_region(near, j, e);
    });
}

// Acquires in a pass, where the key is a chunk's number.
int acquire_chunk(ks_routes &r, const Asked &asked, const Cancel &cancel, char *error) {
    uint64_t key = asked.keys[0];
    if (asked.n != 1 || key >= static_cast<uint64_t>(r.plan.chunks)) {
        std::snprintf(error, TUSK_STORE_ERROR, "%lld keys from %llu on are no chunk",
                      static_cast<long long>(asked.n), static_cast<unsigned long long>(key));
        return TUSK_STORE_FAILED;
    }
    auto j = static_cast<int32_t>(key);
    if (r.held >= 0) {
        std::snprintf(error, TUSK_STORE_ERROR, "chunk %d is asked for while %d is held", j,
                      r.held);
        return TUSK_STORE_FAILED;
    }
    if (int code = bring(r, j, cancel, error))
        return code;
    std::swap(r.here, r.next);
    r.links.swap(r.next_links);
    hand_out(r, j);
    asked.out[0] = &r.frame;
    r.held = j;
    read_ahead(r, j);
    return TUSK_ACQUIRED;
}

void release_chunk(ks_routes &r) {
    int32_t j = r.held;
    char error[KS_ERROR];
    bool stop = false;
    r.held = -1;
    {
        Watch watch(r.waiting);
        // A failure of the thread is reported by the next call.
        if (!r.thread.wait([&] { return r.has_moves && r.sent; }, {}, error, &stop))
            return;
    }
    if (r.several() > 1)
        r.gather_several(j);
    else
        r.plan.weight_size == 4 ? r.gather<float>(j) : r.gather<double>(j);
    // Parts have one time under l1, and one span of time under l2 (clock.hpp).
    double stamp = 0;
    for (const tusk_frame &part : r.parts)
        stamp = std::max(stamp, part.stamp);
    r.stamps[static_cast<std::size_t>(j)] = stamp;
    r.sent = false;
    r.sent_links.swap(r.links);
    r.thread.add([&r, j](char *e) {
        bool done = r.send(j, e);
        r.released[static_cast<std::size_t>(j)] = 1;
        r.sent = true;
        return done;
    });
}

int acquire(tusk_frames *frames, int32_t worker, const uint64_t *keys, const uint32_t *widths,
            int64_t n, tusk_frame **out, int (*cancelled)(void *), void *argument, char *error) {
    auto &r = *reinterpret_cast<ks_routes *>(frames);
    return guarded(
        [&] {
            Asked asked{keys, widths, n, out};
            return r.resting ? acquire_resting(r, worker, asked, error)
                             : acquire_chunk(r, asked, {cancelled, argument}, error);
        },
        error);
}

void release(tusk_frames *frames, int32_t worker, tusk_frame *const *, int64_t n, int changed) {
    auto &r = *reinterpret_cast<ks_routes *>(frames);
    r.resting ? release_resting(r, worker, n, changed) : release_chunk(r);
}

tusk_frame *parts_of(tusk_frames *frames, int32_t worker, int64_t k, int64_t *n) {
    auto &r = *reinterpret_cast<ks_routes *>(frames);
    if (!r.resting) {
        *n = static_cast<int64_t>(r.parts.size());
        return r.parts.data();
    }
    std::scoped_lock guard(r.resting_lock);
    Resting &mine = r.rest[worker];
    auto at = static_cast<std::size_t>(k);
    *n = static_cast<int64_t>(mine.first[at + 1] - mine.first[at]);
    return mine.parts.data() + mine.first[at];
}

} // namespace

int ks_routes_open(const ks_route_plan *plan, ks_routes **out, char *error) {
    return guarded(
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
    *out = {reinterpret_cast<tusk_frames *>(routes),
            routes->plan.weight_size / routes->plan.several,
            acquire,
            release,
            nullptr,
            parts_of};
}

void ks_routes_count(ks_routes *routes, ks_route_counters *counters) {
    std::scoped_lock guard(routes->counting);
    *counters = routes->counted;
    counters->reading = routes->reading;
    counters->writing = routes->writing;
    counters->waiting = routes->waiting;
}

int ks_routes_rest(ks_routes *routes, int rest, int fold, char *error) {
    return guarded(
        [&] {
            if (rest && !settle_down(*routes, error))
                return KS_FAILED;
            if (fold)
                std::fill(routes->stamps.begin(), routes->stamps.end(), 0.0);
            if (!rest && !routes->thread.idle(error)) // a write between passes failed
                return KS_FAILED;
            routes->resting = rest != 0;
            routes->rest.clear();
            rest ? routes->drop_buffers() : routes->take_buffers();
            return KS_OK;
        },
        error);
}
