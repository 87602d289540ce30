// Memory for frames: one mapping of a fixed size, so that frames can never take more. Blocks are
// runs of units of 64 bytes. A free run has its length at both ends, and a bit for each unit marks
// whether a free run begins or ends there: neighbours join when a block is freed (boundary tags,
// Knuth, The Art of Computer Programming, volume 1, section 2.5). Free runs are in lists by
// length, and a bit per list finds the next longer one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tusk {

constexpr std::size_t UNIT = 64;

class Arena {
public:
    // bytes: rounded to whole units; no page is resident before it is written. Throws bad_alloc.
    explicit Arena(std::size_t bytes);
    ~Arena();
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;

    // A block of this many units, aligned to a unit; nullptr if no free run is long enough.
    void *take(std::size_t units);
    void give(void *block, std::size_t units);
    std::size_t bytes() const { return units_ * UNIT; }
    // Bytes that an arena needs in addition to its own.
    static std::size_t overhead(std::size_t bytes) { return bytes / UNIT / 4 + 64; }

private:
    struct Run { // at the start of a free run; its last 8 bytes hold units again
        Run *next, **here;
        std::size_t units;
    };
    using Bits = std::vector<std::uint64_t>;

    std::size_t place(const void *block) const {
        return static_cast<std::size_t>(static_cast<const char *>(block) - base_) / UNIT;
    }
    void add(char *at, std::size_t units);
    void remove(Run *run);
    Run *find(std::size_t units);
    Run *longer(std::size_t list);

    // Lists: one for each length below 64 units, then eight for each doubling.
    static constexpr std::size_t LISTS = 384;
    std::mutex mutex_;
    char *base_ = nullptr;
    std::size_t units_;
    Bits begins_, ends_; // of free runs
    std::array<Run *, LISTS> lists_{};
    std::array<std::uint64_t, LISTS / 64> filled_{};
};

} // namespace tusk
