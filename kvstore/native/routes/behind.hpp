// Write-behind: bytes for a region are gathered in whole pages before they are written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <sys/mman.h>
#include <vector>

#include "api.h"

namespace tusk {

// Memory mapped from the system: malloc may keep freed memory, and then buffers of a share of the
// cache would count twice.
struct Unmap {
    void operator()(void *memory) const { munmap(memory, size); }
    std::size_t size = 0;
};
using Memory = std::unique_ptr<char, Unmap>;

inline Memory take(std::size_t bytes) {
    std::size_t size = std::max<std::size_t>(1, bytes);
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw std::bad_alloc();
    return Memory(static_cast<char *>(memory), Unmap{size});
}

// A buffer for each region. Chunks come in order, and so do the offsets that they write in a
// region; so each region is written from one end to the other, in runs as long as its buffer. One
// thread at a time may call.
class Behind {
public:
    // size: bytes of each buffer, a multiple of a page; 0: writes are immediate.
    Behind(int32_t regions, int32_t size)
        : size_(static_cast<std::size_t>(size)), open_(static_cast<std::size_t>(regions)) {}
    void take() { memory_ = tusk::take(open_.size() * size_); } // before the first put
    void drop() { memory_.reset(); }                            // when all is flushed

    // Writes `bytes` bytes at a file offset, once they and what follows fill the buffer. `write`
    // takes data, bytes and the offset; its failure is the result.
    using Write = std::function<bool(const char *, std::size_t, int64_t)>;
    bool put(int32_t region, const char *data, std::size_t bytes, int64_t at, const Write &write);
    // Writes the contents of a region's buffer.
    bool flush(int32_t region, const Write &write);

private:
    struct Open {
        int64_t begin = 0; // file offset of the buffer's first byte
        std::size_t used = 0;
    };
    char *buffer(int32_t region) {
        return memory_.get() + static_cast<std::size_t>(region) * size_;
    }

    std::size_t size_;
    std::vector<Open> open_;
    Memory memory_;
};

} // namespace tusk
