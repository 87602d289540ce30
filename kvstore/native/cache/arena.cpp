#include "arena.hpp"

#include <bit>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace tusk {
namespace {

bool is_set(const std::vector<std::uint64_t> &bits, std::size_t i) {
    return bits[i / 64] >> i % 64 & 1;
}

void flip(std::vector<std::uint64_t> &bits, std::size_t i) {
    bits[i / 64] ^= std::uint64_t(1) << i % 64;
}

std::size_t list_of(std::size_t units) {
    if (units < 64)
        return units;
    auto order = static_cast<std::size_t>(std::bit_width(units)) - 1;
    return 64 + (order - 6) * 8 + (units >> (order - 3) & 7);
}

std::size_t &tail(char *at, std::size_t units) {
    return *reinterpret_cast<std::size_t *>(at + units * UNIT - sizeof units);
}

} // namespace

Arena::Arena(std::size_t bytes)
    : units_(bytes / UNIT), begins_(units_ / 64 + 1), ends_(units_ / 64 + 1) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *mapped = mmap(nullptr, units_ * UNIT, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (mapped == MAP_FAILED)
        throw std::bad_alloc();
    base_ = static_cast<char *>(mapped);
    madvise(mapped, units_ * UNIT, MADV_HUGEPAGE); // random access to weights; the advice may be
                                                   // refused
    add(base_, units_);
}

Arena::~Arena() {
    munmap(base_, units_ * UNIT);
}

void *Arena::take(std::size_t units) {
    std::scoped_lock held(mutex_);
    Run *run = find(units);
    if (!run)
        return nullptr;
    std::size_t rest = run->units - units;
    remove(run);
    char *block = reinterpret_cast<char *>(run);
    if (rest)
        add(block + units * UNIT, rest);
    return block;
}

void Arena::give(void *block, std::size_t units) {
    std::scoped_lock held(mutex_);
    char *at = static_cast<char *>(block);
    std::size_t first = place(at), end = first + units;
    if (end < units_ && is_set(begins_, end)) {
        auto *after = reinterpret_cast<Run *>(at + units * UNIT);
        units += after->units;
        remove(after);
    }
    if (first && is_set(ends_, first - 1)) {
        std::size_t before = tail(at - UNIT, 1);
        at -= before * UNIT;
        units += before;
        remove(reinterpret_cast<Run *>(at));
    }
    add(at, units);
}

void Arena::add(char *at, std::size_t units) {
    std::size_t list = list_of(units), first = place(at);
    auto *run = new (at) Run{lists_[list], &lists_[list], units};
    if (run->next)
        run->next->here = &run->next;
    lists_[list] = run;
    filled_[list / 64] |= std::uint64_t(1) << list % 64;
    tail(at, units) = units;
    flip(begins_, first);
    flip(ends_, first + units - 1);
}

void Arena::remove(Run *run) {
    std::size_t list = list_of(run->units), first = place(run);
    *run->here = run->next;
    if (run->next)
        run->next->here = run->here;
    if (!lists_[list])
        filled_[list / 64] &= ~(std::uint64_t(1) << list % 64);
    flip(begins_, first);
    flip(ends_, first + run->units - 1);
}

// The first free run of this list or of the next one that has any.
Arena::Run *Arena::longer(std::size_t list) {
    for (std::size_t word = list / 64; word < filled_.size(); word++) {
        std::uint64_t bits = filled_[word];
        if (word == list / 64)
            bits &= ~std::uint64_t(0) << list % 64;
        if (bits)
            return lists_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))];
    }
    return nullptr;
}

// Finds nearly the shortest run that is long enough; before it gives up, any such run.
Arena::Run *Arena::find(std::size_t units) {
    std::size_t list = list_of(units);
    if (units < 64)
        return longer(list);
    if (lists_[list] && lists_[list]->units >= units)
        return lists_[list];
    if (Run *run = longer(list + 1))
        return run;
    for (Run *run = lists_[list]; run; run = run->next)
        if (run->units >= units)
            return run;
    return nullptr;
}

} // namespace tusk
