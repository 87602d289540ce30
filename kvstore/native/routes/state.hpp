// Weights that travel: the state in memory.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "api.h"
#include "behind.hpp"
#include "routes.hpp"

namespace tusk {

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

// The buckets of a chunk: weights that it takes over from each chunk, and gives to each.
class Links {
public:
    explicit Links(const ks_route_plan &plan)
        : file_(plan.links), n_(static_cast<std::size_t>(plan.chunks)), data_(PARTS * n_) {}

    bool read(int32_t chunk, char *error) { return read(chunk, PARTS, error); }
    // Reads the first two only.
    bool read_takes(int32_t chunk, char *error) { return read(chunk, 2, error); }

    uint32_t takes(int32_t from) const { return part(0, from); }
    uint32_t takes_at(int32_t from) const { return part(1, from); } // index in its own region
    uint32_t gives(int32_t to) const { return part(2, to); }
    uint32_t gives_at(int32_t to) const { return part(3, to); } // index in the other's region
    void swap(Links &other) { data_.swap(other.data_); }

private:
    static constexpr std::size_t PARTS = 4;
    bool read(int32_t chunk, std::size_t parts, char *error) {
        auto row = static_cast<int64_t>(PARTS * n_ * sizeof(uint32_t));
        return read_at(file_, data_.data(), parts * n_ * sizeof(uint32_t), chunk * row, error);
    }
    uint32_t part(std::size_t k, int32_t chunk) const {
        return data_[k * n_ + static_cast<std::size_t>(chunk)];
    }

    int file_;
    std::size_t n_;
    std::vector<uint32_t> data_;
};

// State of a worker between passes.
struct Resting {
    std::vector<tusk_frame> frames, parts;
    std::vector<std::size_t> first; // first of the parts of each frame
    std::vector<int64_t> offsets;   // in the file
    int64_t buckets = 0;
    Memory memory;
};

// Arguments of an acquire call.
struct Asked {
    const uint64_t *keys;
    const uint32_t *widths;
    int64_t n;
    tusk_frame **out;
};

} // namespace tusk

struct ks_routes {
    explicit ks_routes(const ks_route_plan &given)
        : plan(given), stamps(static_cast<std::size_t>(given.chunks)),
          released(static_cast<std::size_t>(given.chunks)), links(given), next_links(given),
          sent_links(given), behind(given.chunks, given.behind) {
        take_buffers();
    }

    // Memory for passes only: between them, sealing has buffers of its own.
    void take_buffers() {
        int64_t region = 0, weights = 0;
        for (int32_t j = 0; j < plan.chunks; j++) {
            region = std::max(region, plan.region[j + 1] - plan.region[j]);
            weights = std::max(weights, plan.first[j + 1] - plan.first[j]);
        }
        here = tusk::take(static_cast<std::size_t>(region));
        next = tusk::take(static_cast<std::size_t>(region));
        out = tusk::take(static_cast<std::size_t>(weights * plan.weight_size));
        moves = tusk::take(static_cast<std::size_t>(weights) * sizeof(int32_t));
        behind.take();
    }
    void drop_buffers() {
        here.reset();
        next.reset();
        out.reset();
        moves.reset();
        behind.drop();
    }

    std::size_t bytes(int64_t weights) const {
        return static_cast<std::size_t>(weights * plan.weight_size);
    }
    // Bytes of a frame; width: its number of scalar weights, also where a feature has several.
    std::size_t bytes_of(uint32_t width) const { return bytes(width / several()); }
    uint32_t several() const { return static_cast<uint32_t>(plan.several); }
    int64_t places(int32_t j) const { // number of weights of a chunk's region
        return (plan.region[j + 1] - plan.region[j]) / plan.weight_size;
    }
    int32_t move_of(int64_t k) const { // move of the current chunk's k-th weight
        return reinterpret_cast<const int32_t *>(moves.get())[k];
    }
    int32_t after(int32_t j) const { return (j + 1) % plan.chunks; }

    bool read_region(int32_t j, int32_t without, char *error);
    template <class W> void gather(int32_t j);
    void gather_several(int32_t j);
    bool send(int32_t j, char *error);
    bool write_run(const char *data, std::size_t bytes, int64_t at, char *error);
    tusk::Behind::Write writer(char *error) {
        return [this, error](const char *data, std::size_t bytes, int64_t at) {
            return write_run(data, bytes, at, error);
        };
    }
    void count_wanted();

    ks_route_plan plan;
    std::vector<double> stamps;         // stamps of the weights that each chunk released
    std::vector<std::uint8_t> released; // whether each chunk has released its weights
    // Links of the current chunk, of the one after it, and of the outgoing weights.
    tusk::Links links, next_links, sent_links;
    tusk::Behind behind;
    tusk::Memory here, next, out, moves; // moves: int32
    tusk_frame frame{};                  // frame of the current chunk
    std::vector<tusk_frame> parts;       // its buckets
    int32_t asked = -1;                  // the chunk whose region is or will be in `next`
    int32_t source = -1;                 // the chunk whose weights `next` has but not the file
    int32_t held = -1;
    std::atomic<int32_t> ready{-1}; // the chunk whose region is in `next`, complete
    std::atomic<bool> has_moves{false}, sent{true};
    bool resting = false;
    std::map<int32_t, tusk::Resting> rest; // by worker
    std::mutex resting_lock;

    std::mutex counting;
    ks_route_counters counted{};
    std::atomic<int64_t> reading{0}, writing{0}, waiting{0};
    tusk::IoThread thread; // last: it ends before the members that it uses
};

namespace tusk {

// Between passes (resting.cpp).
int acquire_resting(ks_routes &routes, int32_t worker, const Asked &asked, char *error);
void release_resting(ks_routes &routes, int32_t worker, int64_t n, int changed);
bool settle_down(ks_routes &routes, char *error);

} // namespace tusk
