#include "frame_table.hpp"

#include <new>
#include <sys/mman.h>

namespace tusk {

FrameTable::FrameTable(std::size_t bytes) {
    std::size_t each = std::max<std::size_t>(bytes / SHARDS / sizeof(Frame *), shards[0].most);
    bytes_ = each * SHARDS * sizeof(Frame *);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (mapped == MAP_FAILED)
        throw std::bad_alloc();
    mapped_ = mapped;
    auto *buckets = static_cast<std::atomic<Frame *> *>(mapped); // zeros are empty chains
    for (std::size_t i = 0; i < SHARDS; i++) {
        shards[i].buckets = buckets + i * each;
        shards[i].most = each;
    }
}

FrameTable::~FrameTable() {
    munmap(mapped_, bytes_);
}

void Shard::insert(Frame *frame) {
    std::atomic<Frame *> &chain = head(Place(frame->key));
    frame->next = chain.load(std::memory_order_relaxed);
    chain.store(frame, std::memory_order_relaxed);
    if (++count > size.load(std::memory_order_relaxed))
        split();
}

void Shard::remove(Frame *frame) {
    std::atomic<Frame *> &chain = head(Place(frame->key));
    Frame *before = chain.load(std::memory_order_relaxed);
    count--;
    if (before == frame) {
        chain.store(frame->next, std::memory_order_relaxed);
        return;
    }
    while (before->next != frame)
        before = before->next;
    before->next = frame->next;
}

// Adds one bucket: half of an old one moves there.
void Shard::split() {
    std::size_t n = size.load(std::memory_order_relaxed);
    if (n == most)
        return;
    std::atomic<Frame *> &old = buckets[n - std::bit_floor(n)];
    Frame *frame = old.load(std::memory_order_relaxed);
    old.store(nullptr, std::memory_order_relaxed);
    size.store(n + 1, std::memory_order_relaxed);
    while (frame) {
        Frame *next = frame->next;
        std::atomic<Frame *> &chain = head(Place(frame->key));
        frame->next = chain.load(std::memory_order_relaxed);
        chain.store(frame, std::memory_order_relaxed);
        frame = next;
    }
}

} // namespace tusk
